package broker_test

import (
	"fmt"
	"strings"
	"testing"

	"airlock/broker"
	"airlock/broker/brokertest"
	"airlock/job"
)

func TestTheCacheServesReadOnlyTools(t *testing.T) {
	t.Parallel()
	tools := &brokertest.Tools{}
	read := counting(tools, t, broker.ToolSpec{Namespace: "n", Name: "read", ReadOnly: true})
	write := counting(tools, t, broker.ToolSpec{Namespace: "n", Name: "write", Idempotent: true})
	audit := &brokertest.Audit{}
	cfg := rules(t, all(`"cache": "1h", "calls": 7, "rate": {"per_second": 0.0001, "burst": 6}`))
	cfg.Tools, cfg.Audit = tools, audit
	shared := broker.New(cfg)
	b := begin(t, setup{shared: shared, tools: tools, audit: audit, grants: "n.*", edits: []func(*job.Job){of("a")}})
	b.Hello()
	for id, c := range []struct{ tool, arguments, want string }{
		{"n.read", `{"a":1,"b":{"c":[1,2],"d":"x"}}`, "1"},
		{"n.read", `{"b": {"d": "\u0078", "c": [1, 2]}, "a": 1}`, "1"}, // the same
		{"n.read", `{"a":1,"b":{"c":[2,1],"d":"x"}}`, "2"},
		{"n.read", `{"a":9007199254740993}`, "3"},
		{"n.read", `{"a":9007199254740992}`, "4"}, // the same as a float
		{"n.read", `{"a":1.0}`, "5"},
		{"n.read", `{"a":9007199254740993}`, "3"},
		{"n.write", `{}`, "1"},
		{"n.write", `{}`, "2"},
	} {
		b.Call(id, c.tool, c.arguments)
		b.Expect(value(id, c.want))
	}
	b.Call(20, "n.read", `{"a":1.0}`) // the rule's calls are used up, kept answer or not
	b.ExpectCode(20, broker.CodeToolLimit)
	report := b.end(t)
	if report.ToolCalls != 9 {
		t.Errorf("got %d calls, want 9: those that the cache served count", report.ToolCalls)
	}
	calls := audit.Calls()
	hit := calls[1]
	if hit.Provider != "(cache)" || hit.State != job.CallOK || string(hit.Answer) != "1" || hit.StartLink == 0 ||
		!strings.Contains(hit.Detail, fmt.Sprintf("call %s.1.1,", calls[0].Job)) {
		t.Errorf("recorded %+v, want an ok call from the cache that names the first", hit)
	}

	other := begin(t, setup{shared: shared, tools: tools, grants: "n.*", edits: []func(*job.Job){of("b")}})
	other.Hello()
	other.Call(1, "n.read", `{"a":1,"b":{"c":[1,2],"d":"x"}}`)
	other.Expect(value(1, "6")) // no tenant is served another's answer
	other.over(t)
	if read.Load() != 6 || write.Load() != 2 {
		t.Errorf("got %d and %d calls at the provider, want 6 and 2", read.Load(), write.Load())
	}
}

func TestTheCacheForgets(t *testing.T) {
	t.Parallel()
	tools := &brokertest.Tools{}
	spec := broker.ToolSpec{Namespace: "n", Name: "read", ReadOnly: true}
	counting(tools, t, spec)
	b := begin(t, setup{tools: tools, grants: "n.*", cfg: rules(t, all(`"cache": "20ms"`)), edits: []func(*job.Job){func(j *job.Job) { j.Limits.ToolCalls = 100_000 }}})
	b.Hello()
	id := 0
	read := func() string {
		id++
		b.Call(id, "n.read", `{}`)
		return b.Recv()
	}
	read()
	until(t, "another answer", func() bool { return strings.Contains(read(), `"value":2`) })
	spec.InputSchema = []byte(`{"type": "object"}`)
	counting(tools, t, spec) // the provider's tool is another: it counts from 1
	if reply := read(); !strings.Contains(reply, `"value":1`) {
		t.Errorf("got %s, want an answer of the new tool", reply)
	}
	b.end(t)
}

func TestTheCacheIsBounded(t *testing.T) {
	t.Parallel()
	tools := &brokertest.Tools{}
	text := strings.Repeat("x", 600)
	tools.AddSpec(t, broker.ToolSpec{Namespace: "n", Name: "read", ReadOnly: true}, func(r broker.Request) *broker.Answer {
		if strings.Contains(string(r.Arguments), "large") {
			return brokertest.Body(`"` + strings.Repeat("x", 1200) + `"`)
		}
		return brokertest.Body(`"` + text + `"`)
	})
	cfg := rules(t, all(`"cache": "1h"`))
	cfg.MaxCache = 10_000 // nine answers of 1,002 bytes with what they need beside, none of more than 1,250
	b := begin(t, setup{tools: tools, grants: "n.*", cfg: cfg})
	b.Hello()
	id := 0
	asked := func(arguments string) bool {
		before := len(tools.Requests())
		id++
		b.Call(id, "n.read", arguments)
		b.Recv()
		return len(tools.Requests()) > before
	}
	for i := range 9 {
		asked(fmt.Sprintf(`{"i":%d}`, i))
	}
	if asked(`{"i":0}`) {
		t.Error("the first of nine is not kept")
	}
	asked(`{"i":9}`) // drops 1, for 0 was just asked for
	if asked(`{"i":0}`) || !asked(`{"i":1}`) {
		t.Error("got another than the longest unused dropped")
	}
	if asked(`{"large":1}`); !asked(`{"large":1}`) {
		t.Error("an answer of more than an eighth is kept")
	}
	b.end(t)
}

// An answer that is no answer is not kept.
func TestTheCacheKeepsNoFailures(t *testing.T) {
	t.Parallel()
	tools := failing(t, broker.ToolSpec{Namespace: "n", Name: "read", ReadOnly: true}, 1, broker.Answer{Code: broker.CodeProviderError, Message: "no"})
	b := begin(t, setup{tools: tools, grants: "n.*", cfg: rules(t, all(`"cache": "1h"`))})
	b.Hello()
	b.Call(1, "n.read", `{}`)
	b.ExpectCode(1, broker.CodeProviderError)
	for id := 2; id < 4; id++ {
		b.Call(id, "n.read", `{}`)
		b.Expect(value(id, "7"))
	}
	if got := len(tools.Requests()); got != 2 {
		t.Errorf("got %d requests, want 2", got)
	}
	b.end(t)
}
