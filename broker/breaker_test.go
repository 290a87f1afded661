package broker_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"airlock/broker"
	"airlock/broker/brokertest"
	"airlock/job"
)

// moody is a tool that answers as it is told.
func moody(t *testing.T) (tools *brokertest.Tools, mood *atomic.Pointer[broker.Answer]) {
	t.Helper()
	tools, mood = &brokertest.Tools{}, &atomic.Pointer[broker.Answer]{}
	tools.Add(t, "n.t", "", func(broker.Request) *broker.Answer {
		if a := mood.Load(); a.Code != "" || a.Body != nil {
			return a
		}
		return nil
	})
	mood.Store(brokertest.Body("1"))
	return tools, mood
}

func TestABreakerLeavesAToolAlone(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]*broker.Answer{
		"nobody answers":          {Code: broker.CodeNoProvider, Message: "nobody"},
		"overloaded":              {Code: broker.CodeProviderError, Message: "busy", Retryable: true},
		"not JSON":                {Body: []byte("}")},
		"late, says the provider": {Code: broker.CodeTimeout, Message: "late"},
		"never":                   {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tools, mood := moody(t)
			shared := sharing(tools, rules(t, all(`"breaker": {"failures": 2, "pause": "10s"}, "timeout": "40ms"`)))
			b := begin(t, setup{shared: shared, tools: tools, grants: "n.*", edits: []func(*job.Job){of("a")}})
			b.Hello()
			other := begin(t, setup{shared: shared, tools: tools, grants: "n.*", edits: []func(*job.Job){of("b")}})
			other.Hello()
			mood.Store(failure)
			for id := range 2 {
				b.Call(id, "n.t", `{}`)
				if reply := b.Recv(); !strings.Contains(reply, `"ok":false`) || strings.Contains(reply, "circuit_open") {
					t.Errorf("failure %d: got %s", id, reply)
				}
			}
			other.Call(1, "n.t", `{}`)
			if reply := other.Recv(); !strings.Contains(reply, `"circuit_open"`) || !strings.Contains(reply, `"retryable":true`) {
				t.Errorf("another tenant: got %s, want circuit_open, retryable", reply)
			}
			if report := other.over(t); report.ToolCalls != 0 || len(tools.Requests()) != 2 {
				t.Errorf("got %d calls, %d requests, want none and the first two", report.ToolCalls, len(tools.Requests()))
			}
			states := shared.Breakers()
			if len(states) != 1 || states[0].Namespace != "n" || states[0].Name != "t" || states[0].State != "open" || states[0].Limit != 2 ||
				states[0].Until.Sub(states[0].Since) != 10*time.Second {
				t.Errorf("got breakers %+v, want n.t, open for 10 s", states)
			}
			mood.Store(brokertest.Body("1"))
			until(t, "the tool's next chance", func() bool {
				time.Sleep(200 * time.Millisecond) // a guest's frames are bounded
				b.Call(9, "n.t", `{}`)
				return strings.Contains(b.Recv(), `"ok":true`)
			})
			if states := shared.Breakers(); len(states) != 0 {
				t.Errorf("got breakers %+v, want nothing to tell", states)
			}
			b.over(t)
		})
	}
}

func TestABreakerDoesNotMind(t *testing.T) {
	t.Parallel()
	tools, mood := moody(t)
	shared := sharing(tools, rules(t, all(`"breaker": {"failures": 2}`)))
	b := begin(t, setup{shared: shared, tools: tools, grants: "n.*"})
	b.Hello()
	busy := &broker.Answer{Code: broker.CodeProviderError, Message: "busy", Retryable: true}
	declined := &broker.Answer{Code: broker.CodeProviderError, Message: "declined"}
	for id, answer := range []*broker.Answer{declined, declined, declined, busy, brokertest.Body("1"), busy, declined, busy} {
		mood.Store(answer)
		b.Call(id, "n.t", `{}`)
		if reply := b.Recv(); strings.Contains(reply, "circuit_open") {
			t.Errorf("call %d: got %s", id, reply)
		}
	}
	if states := shared.Breakers(); len(states) != 1 || states[0].State != "closed" || states[0].Failures != 1 {
		t.Errorf("got breakers %+v, want n.t closed with one failure", states)
	}
	b.over(t)
}

// Calls that end with their job say nothing of the tool, and leave a breaker
// that tries it with its next call.
func TestABreakerLearnsNothingOfACancelledCall(t *testing.T) {
	t.Parallel()
	tools, mood := moody(t)
	shared := sharing(tools, rules(t, all(`"breaker": {"failures": 1, "pause": "1ms"}`)))
	for range 3 {
		mood.Store(&broker.Answer{Code: broker.CodeNoProvider, Message: "nobody"})
		b := begin(t, setup{shared: shared, tools: tools, grants: "n.*"})
		b.Hello()
		b.Call(1, "n.t", `{}`)
		b.Recv()
		until(t, "half-open", func() bool { s := shared.Breakers(); return len(s) == 1 && s[0].State == "half-open" })
		mood.Store(&broker.Answer{}) // no answer
		before := len(tools.Requests())
		b.Call(2, "n.t", `{}`)
		until(t, "the call", func() bool { return len(tools.Requests()) > before })
		b.Send(`{"id":3,"method":"result","params":{"value":1}}`)
		if reply := b.Recv(); !strings.Contains(reply, `"cancelled"`) {
			t.Errorf("got %s, want cancelled", reply)
		}
		b.Expect(`{"id":3,"ok":true}`)
		b.Close()
		if _, err := b.Wait(); err != nil {
			t.Errorf("Serve: %v", err)
		}
		if s := shared.Breakers(); len(s) != 1 || s[0].State != "half-open" {
			t.Errorf("got %+v, want half-open as before", s)
		}
	}
	mood.Store(brokertest.Body("1"))
	b := begin(t, setup{shared: shared, tools: tools, grants: "n.*"})
	b.Hello()
	b.Call(1, "n.t", `{}`)
	b.Expect(value(1, "1"))
	b.over(t)
}
