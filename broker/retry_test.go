package broker_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"airlock/broker"
	"airlock/broker/brokertest"
	"airlock/job"
)

// failing is a tool that fails so often before it answers.
func failing(t *testing.T, spec broker.ToolSpec, times int64, failure broker.Answer) *brokertest.Tools {
	t.Helper()
	tools, calls := &brokertest.Tools{}, &atomic.Int64{}
	tools.AddSpec(t, spec, func(broker.Request) *broker.Answer {
		if calls.Add(1) <= times {
			return &failure
		}
		return brokertest.Body("7")
	})
	return tools
}

func TestRetries(t *testing.T) {
	t.Parallel()
	busy := broker.Answer{Code: broker.CodeProviderError, Message: "busy", Retryable: true}
	idempotent := broker.ToolSpec{Namespace: "n", Name: "t", Idempotent: true}
	readOnly := broker.ToolSpec{Namespace: "n", Name: "t", ReadOnly: true}
	plain := broker.ToolSpec{Namespace: "n", Name: "t"}
	for name, c := range map[string]struct {
		spec    broker.ToolSpec
		times   int64
		failure broker.Answer
		rule    string
		tries   int
		code    broker.Code
		detail  string
	}{
		"idempotent":             {idempotent, 2, busy, `"retries": 2`, 3, "", "3 tries"},
		"read-only":              {readOnly, 1, busy, `"retries": 2`, 2, "", "2 tries"},
		"nobody answers":         {readOnly, 1, broker.Answer{Code: broker.CodeNoProvider, Message: "nobody"}, `"retries": 2`, 2, "", "2 tries"},
		"too often":              {idempotent, 9, busy, `"retries": 2`, 3, broker.CodeProviderError, "3 tries: retryable: why"},
		"not idempotent":         {plain, 9, busy, `"retries": 2`, 1, broker.CodeProviderError, "retryable: why"},
		"not retryable":          {idempotent, 9, broker.Answer{Code: broker.CodeProviderError, Message: "no"}, `"retries": 2`, 1, broker.CodeProviderError, "why"},
		"not what failed":        {idempotent, 9, broker.Answer{Code: broker.CodeTimeout, Message: "late"}, `"retries": 2`, 1, broker.CodeTimeout, "why"},
		"no JSON":                {idempotent, 9, broker.Answer{Body: []byte("{")}, `"retries": 2`, 1, broker.CodeBadAnswer, ""},
		"no retries":             {idempotent, 9, busy, `"calls": 5`, 1, broker.CodeProviderError, "retryable: why"},
		"no time for another":    {idempotent, 9, busy, `"retries": 10, "timeout": "1ms"`, 1, "", ""},
		"no turn for another":    {idempotent, 9, busy, `"retries": 5, "rate": {"per_second": 0.001, "burst": 2}`, 2, broker.CodeProviderError, "2 tries: retryable: why"},
		"the breaker opens":      {idempotent, 9, busy, `"retries": 5, "breaker": {"failures": 2}`, 2, broker.CodeProviderError, "2 tries: retryable: why"},
		"not what it says first": {idempotent, 1, busy, `"retries": 1, "cache": "1m"`, 2, "", "2 tries"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.failure.Code != "" {
				c.failure.Detail = "why"
			}
			tools := failing(t, c.spec, c.times, c.failure)
			b := begin(t, setup{tools: tools, grants: "n.*", cfg: rules(t, all(c.rule))})
			b.Hello()
			b.Call(1, "n.t", `{"x": 1}`)
			reply := b.Recv()
			b.end(t)
			if name == "no time for another" { // how far it comes is the machine's
				if strings.Contains(reply, `"ok":true`) {
					t.Errorf("got %s, want a failure", reply)
				}
				return
			}
			if want := `"code":"` + string(c.code) + `"`; c.code != "" && !strings.Contains(reply, want) || c.code == "" && !strings.Contains(reply, `"value":7`) {
				t.Errorf("got %s, want code %q", reply, c.code)
			}
			requests, calls := tools.Requests(), b.audit.Calls()
			if len(requests) != c.tries {
				t.Fatalf("got %d tries, want %d", len(requests), c.tries)
			}
			for _, r := range requests[1:] {
				if r.Key != requests[0].Key || r.Seq != requests[0].Seq || !r.Deadline.Equal(requests[0].Deadline) {
					t.Errorf("got %+v, want key, call and deadline of the first try, %+v", r, requests[0])
				}
			}
			if len(calls) != 1 || c.detail != "" && calls[0].Detail != c.detail {
				t.Errorf("recorded %+v, want one call with detail %q", calls, c.detail)
			}
		})
	}
}

// A job that ends does not wait for the next try.
func TestAPauseEndsWithTheJob(t *testing.T) {
	t.Parallel()
	busy := broker.Answer{Code: broker.CodeProviderError, Message: "busy", Retryable: true}
	tools := failing(t, broker.ToolSpec{Namespace: "n", Name: "t", Idempotent: true}, 1<<40, busy)
	b := begin(t, setup{tools: tools, grants: "n.*", cfg: rules(t, all(`"retries": 10, "timeout": "15m"`)),
		edits: []func(*job.Job){func(j *job.Job) { j.Limits.ToolTime = job.Duration(1800e9) }}})
	b.Hello()
	b.Call(1, "n.t", `{}`)
	until(t, "a second try", func() bool { return len(tools.Requests()) > 1 })
	b.Send(`{"id":2,"method":"result","params":{"value":1}}`)
	if reply := b.Recv(); !strings.Contains(reply, `"id":1,"ok":false`) {
		t.Errorf("got %s, want a failure", reply)
	}
	b.Expect(`{"id":2,"ok":true}`)
	b.Close()
	if _, err := b.Wait(); err != nil {
		t.Errorf("Serve: %v", err)
	}
}
