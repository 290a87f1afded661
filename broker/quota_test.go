package broker_test

import (
	"strings"
	"testing"

	"airlock/broker"
	"airlock/broker/brokertest"
)

func TestARuleBoundsCallsOfOneJob(t *testing.T) {
	t.Parallel()
	tools := brokertest.Math(t)
	shared := broker.New(func() broker.Config {
		cfg := rules(t, `{"tenant": "*", "namespace": "math", "name": "add", "calls": 2}`, all(`"calls": 1`))
		cfg.Tools, cfg.Audit = tools, brokertest.Nothing{}
		return cfg
	}())
	for range 2 { // each job has its own
		b := begin(t, setup{shared: shared, tools: tools})
		b.Hello()
		for id, want := range []broker.Code{"", "", broker.CodeToolLimit, broker.CodeToolLimit} {
			b.Call(id, "math.add", `{"a": 1, "b": 1}`)
			if want == "" {
				b.Expect(value(id, `{"sum":2}`))
			} else {
				b.ExpectCode(id, want)
			}
		}
		b.Call(9, "math.echo", `{"text": "x"}`) // each tool too
		if reply := b.Recv(); !strings.Contains(reply, `"ok":true`) {
			t.Errorf("another tool: got %s, want an answer", reply)
		}
		b.Finish(10, "null")
		if report, err := b.Wait(); err != nil || !report.ToolLimited || report.ToolCalls != 3 {
			t.Errorf("got %d calls, limited %v, error %v; want 3 and limited", report.ToolCalls, report.ToolLimited, err)
		}
	}
	if got := len(tools.Requests()); got != 6 {
		t.Errorf("got %d requests, want 6", got)
	}
}

func TestARuleBoundsBytesOfOneJob(t *testing.T) {
	t.Parallel()
	tools := &brokertest.Tools{}
	answer := `"` + strings.Repeat("y", 38) + `"` // 40 bytes
	tools.Add(t, "big.get", "", func(broker.Request) *broker.Answer { return brokertest.Body(answer) })
	arguments := `{"a":"xx"}` // 10 bytes
	for name, c := range map[string]struct {
		bytes    string
		want     []broker.Code
		requests int
	}{
		"fits twice":                {"100B", []broker.Code{"", "", broker.CodeToolLimit}, 2},
		"an answer does not fit":    {"99B", []broker.Code{"", broker.CodeToolLimit, broker.CodeToolLimit}, 2},
		"arguments do not fit":      {"59B", []broker.Code{"", broker.CodeToolLimit}, 1},
		"the first is not answered": {"49B", []broker.Code{broker.CodeToolLimit, broker.CodeToolLimit}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			before := len(tools.Requests())
			b := begin(t, setup{tools: tools, grants: "big.*", cfg: rules(t, all(`"bytes": "`+c.bytes+`"`))})
			b.Hello()
			for id, want := range c.want {
				b.Call(id, "big.get", arguments)
				if want == "" {
					b.Expect(value(id, answer))
				} else {
					b.ExpectCode(id, want)
				}
			}
			if report := b.end(t); !report.ToolLimited {
				t.Error("got no tool limit in the report")
			}
			if got := len(tools.Requests()) - before; got != c.requests {
				t.Errorf("got %d requests, want %d", got, c.requests)
			}
		})
	}
}
