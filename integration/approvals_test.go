package integration_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"

	"airlock/broker/provider"
	"airlock/job"
)

// serveTools serves math and a namespace whose names are no identifiers.
func serveTools(t *testing.T, s *services) {
	t.Helper()
	nc, err := nats.Connect(s.nats.URL())
	if err != nil {
		t.Fatal(err)
	}
	odd := provider.Namespace{Name: "odd-ns", Tools: []provider.Tool{{
		Name: "do-it", Handler: func(_ context.Context, call provider.Call) (any, error) {
			if strings.Contains(string(call.Arguments), "fail") {
				return nil, provider.Errorf("no_luck", "not \x1b today")
			}
			return map[string]any{"got": call.Arguments}, nil
		},
	}}}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	for _, ns := range []provider.Namespace{provider.Math(), odd} {
		go func() { ended <- provider.Serve(ctx, nc, ns) }()
	}
	t.Cleanup(func() {
		cancel()
		for range 2 {
			if err := <-ended; err != nil {
				t.Errorf("provider: %v", err)
			}
		}
		nc.Close()
	})
}

// asking is a worker whose operator has additions approved.
func asking(t *testing.T) (s *services, start func() *process) {
	t.Helper()
	s = startServices(t)
	serveTools(t, s)
	path := filepath.Join(t.TempDir(), "policy.json")
	rules := `{"rules": [{"tenant": "*", "namespace": "math", "name": "add", "approve": true, "redact": ["b"], "breaker": {"failures": 3}},
		{"tenant": "*", "namespace": "odd-ns", "name": "*"}]}`
	if err := os.WriteFile(path, []byte(rules), 0o644); err != nil {
		t.Fatal(err)
	}
	return s, func() *process { return s.worker(t, "--policy", path) }
}

// waits returns the attempt's call that waits for a person.
func (s *services) waits(t *testing.T, id job.ID, attempt int) job.Approval {
	t.Helper()
	var found job.Approval
	until(t, 2*time.Minute, "a call that waits", func() bool {
		for line := range strings.Lines(submit(t, s.env(), "", "approvals", "--json").stdout) {
			var a job.Approval
			if err := json.Unmarshal([]byte(line), &a); err != nil {
				t.Fatalf("approvals: %v in %q", err, line)
			}
			if (id.IsZero() || a.Job == id) && a.Attempt == attempt {
				found = a
			}
		}
		return found.Attempt != 0
	})
	return found
}

func TestACallWaitsForAPersonOverTheDeathOfItsWorker(t *testing.T) {
	t.Parallel()
	s, start := asking(t)
	first := start()
	const limit = 2 * time.Second
	id := s.submitted(t, "return (await add(a=1, b=2))['sum']", "--tools", "math.add", "--wall", limit.String(), "--tool-time", limit.String())
	w := s.waits(t, id, 1)
	if string(w.Arguments) != `{"a":1,"b":"[redacted]"}` {
		t.Errorf("got arguments %s, want them as the audit keeps them", w.Arguments)
	}
	first.kill()
	start()
	again := s.waits(t, id, 2)
	if got := submit(t, s.env(), "", "approve", w.Short()); got.code != 2 || !strings.Contains(got.stderr, "the attempt has ended") {
		t.Errorf("the dead attempt's: exit %d, %s; want 2 and that it has ended", got.code, got.stderr)
	}
	// The guest's clock and that of its calls stand still.
	thought := time.Now()
	until(t, time.Minute, "a person's thought", func() bool { return time.Since(thought) > 2*limit })
	if got := submit(t, s.env(), "", "approve", again.Short(), "--by", "ann"); got.code != 0 || !strings.Contains(got.stdout, "math.add approved") {
		t.Fatalf("approve: exit %d, %s%s", got.code, got.stdout, got.stderr)
	}
	if r := s.await(t, id, time.Minute, job.StateFinished); r.Status != job.StatusOK {
		t.Errorf("got %s, %+v; want ok", r.Status, r.Error)
	}
	if n := s.value(t, `SELECT count(*) FROM tool_calls WHERE state = 'ok' AND attempt = 2`); n != 1 {
		t.Errorf("got %d calls that were made, want 1", n)
	}
	if n := s.value(t, `SELECT count(*) FROM approval_history WHERE decision = 'approved' AND decided_by = 'ann' AND waited > interval '4 seconds'`); n != 1 {
		t.Errorf("got %d approvals in the history, want 1", n)
	}
	if all := submit(t, s.env(), "", "approvals", "--all").stdout; strings.Count(all, "gone") != 1 || strings.Count(all, "approved") != 1 {
		t.Errorf("got %s, want the dead attempt's gone, and the other's approved", all)
	}
}

func TestAToolTriedByHand(t *testing.T) {
	t.Parallel()
	s, start := asking(t)
	start()
	until(t, time.Minute, "the tools", func() bool { return strings.Contains(submit(t, s.env(), "", "tools").stdout, "odd-ns.do-it") })
	got := submit(t, s.env(), `{"n": 2512292042121000001}`, "call", "odd-ns.do-it", "-")
	if got.code != 0 || got.stdout != `{"got":{"n":2512292042121000001}}`+"\n" {
		t.Errorf("call: exit %d, %q, %s", got.code, got.stdout, got.stderr)
	}
	got = submit(t, s.env(), "", "call", "odd-ns.do-it", `{"fail": true}`)
	if got.code != 1 || got.stdout != "" || !strings.Contains(got.stderr, `ToolError: provider_error: no_luck`) || strings.Contains(got.stderr, "\x1b") {
		t.Errorf("a failure: exit %d, %q, %q; want 1 and its code", got.code, got.stdout, got.stderr)
	}
	if got := submit(t, s.env(), "", "call", "math.echo", `{"text": 1}`); got.code != 1 || !strings.Contains(got.stderr, "denied") {
		t.Errorf("what the rules deny: exit %d, %s", got.code, got.stderr)
	}
	denied := make(chan said, 1)
	go func() { denied <- submit(t, s.env(), "", "call", "math.add", `{"a": 1, "b": 2}`) }()
	w := s.waits(t, job.ID{}, 1)
	if got := submit(t, s.env(), "", "approve", w.CallRef.String(), "--deny", "--reason", "not now"); got.code != 0 {
		t.Errorf("deny: exit %d, %s", got.code, got.stderr)
	}
	if got := <-denied; got.code != 1 || !strings.Contains(got.stderr, "approval_denied: a person denied this call: not now") {
		t.Errorf("denied: exit %d, %s", got.code, got.stderr)
	}
	table := submit(t, s.env(), "", "tools", "--json").stdout
	for _, text := range []string{`"name":"do-it"`, `"calls":2,"errors":1`, `"approval":true`, `"breaker":"closed"`, `"input_schema"`} {
		if !strings.Contains(strings.Join(strings.Fields(table), ""), text) {
			t.Errorf("tools lack %s:\n%s", text, table)
		}
	}
	if strings.Contains(table, `"echo"`) {
		t.Errorf("tools show what the rules deny:\n%s", table)
	}
	if n := s.value(t, `SELECT count(*) FROM jobs j JOIN tool_calls c ON c.job = j.id WHERE j.labels ? 'tool_call'`); n != 4 {
		t.Errorf("got %d calls in the audit, want all 4", n)
	}
}
