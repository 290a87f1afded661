//go:build unix

package integration_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"airlock/broker/policy"
	"airlock/job"
)

// A worker holds guests to the operator's file, takes a better one without a
// new start, keeps to the last good one, and leaves in the database what held
// when.
func TestAWorkerFollowsItsPolicy(t *testing.T) {
	t.Parallel()
	s := startServices(t)
	path := filepath.Join(t.TempDir(), "policy.json")
	write := func(text string) (digest string) {
		t.Helper()
		if err := os.WriteFile(path+".new", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
		if p, err := policy.Load(path); err == nil {
			return p.Digest()
		}
		return ""
	}
	if _, err := startWorker("--nats", s.nats.URL(), "--postgres", s.postgres.URL(), "--policy", path); err == nil || !strings.Contains(err.Error(), "exit status 2") {
		t.Errorf("without its file: got %v, want exit status 2", err)
	}

	first := write(`{"rules": [{"tenant": "*", "namespace": "math", "name": "add", "redact": ["b"]}]}`)
	serveSamples(t, s)
	w := s.worker(t, "--policy", path)
	code := `
got = []
for name, arguments in ("add", {"a": 1, "b": 2}), ("echo", {"text": "x"}):
    try:
        got.append(await tools.call("math", name, arguments))
    except ToolError as e:
        got.append(e.code)
return got`
	run := func(want, digest string) {
		t.Helper()
		said := submit(t, s.env(), code, "run", "-", "--json", "--tools", "math.*")
		var r job.Result
		if err := json.Unmarshal([]byte(said.stdout), &r); err != nil {
			t.Fatalf("the result: %v; %s", err, said.stderr)
		}
		if r.Status != job.StatusOK || string(r.Value) != want || r.Policy != digest {
			t.Errorf("got %s %s by policy %s, %+v; want %s by %s", r.Status, r.Value, r.Policy, r.Error, want, digest)
		}
		if got := s.value(t, `SELECT count(*) FROM attempts a JOIN policies p ON p.digest = a.facts_json ->> 'policy' WHERE a.job = '`+r.Job.String()+`'`); got != 1 {
			t.Errorf("got %d attempts with policy %s, want 1", got, digest)
		}
	}
	run(`[{"sum":3},"denied"]`, first)
	if got := s.value(t, `SELECT count(*) FROM tool_calls WHERE name = 'add' AND arguments_json = '{"a": 1, "b": "[redacted]"}'`); got != 1 {
		t.Errorf("got %d redacted calls, want 1", got)
	}

	second := write(`{"rules": [{"tenant": "*", "namespace": "math", "name": "echo"}]}`)
	again := func(what string, met func(workers string) bool) {
		t.Helper()
		if err := w.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		until(t, 60*time.Second, what, func() bool {
			return met(submit(t, s.env(), "", "workers", "--json").stdout)
		})
	}
	again("the second policy", func(workers string) bool { return strings.Contains(workers, second) })
	run(`["denied","x"]`, second)

	write(`{"rules": [{"tenant": "*", "namespace": "math", "name": "*", "calls": -1}]}`)
	again("the problem", func(workers string) bool {
		return strings.Contains(workers, "rules[0].calls") && strings.Contains(workers, second)
	})
	run(`["denied","x"]`, second)
	if !strings.Contains(w.stderr.String(), "policy not taken") {
		t.Errorf("the log says nothing of it: %s", w.stderr)
	}
	if got := s.value(t, `SELECT count(*) FROM policy_history WHERE host IS NOT NULL`); got != 2 {
		t.Errorf("got %d changes, want 2", got)
	}
}

// serveSamples has a process serve the sample tools.
func serveSamples(t *testing.T, s *services) {
	t.Helper()
	samples := exec.Command(binary(t, "worker"), "sample-tools", "--nats", s.nats.URL())
	if err := samples.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		samples.Process.Kill()
		samples.Wait()
	})
	until(t, time.Minute, "the sample tools", func() bool {
		return exec.Command(binary(t, "worker"), "sample-tools", "--check", "--nats", s.nats.URL()).Run() == nil
	})
}
