package gateway_test

import (
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"airlock/gateway"
	"airlock/job"
)

func TestExecuteAnswersInThatAPIsForm(t *testing.T) {
	t.Parallel()
	w := start(t, setUp{})
	const out, ms, mb = "out\n", 1.5, 3.0
	for code, want := range map[string]gateway.Executed{
		"print": {"success", out, "", 0, ms, mb}, "leave": {"success", out, "", 0, ms, mb},
		"timeout": {"timeout", out, "airlock: timeout: ran longer than 1s", 124, ms, mb},
		"memory":  {"memory_exceeded", out, "", 137, ms, mb},
		"raise":   {"error", out, "Traceback …\nValueError: no\n", 1, ms, mb},
		"exit 3":  {"error", out, "", 3, ms, mb},
		"segv":    {"error", out, "", 139, ms, mb},
	} {
		r := w.ask(post("/execute", `{"code": "`+code+`", "timeout_seconds": 3, "memory_limit_mb": 64, "cpu_limit": 0.5, "allow_network": false}`))
		if r.status != 200 {
			t.Errorf("%s: got %d %s", code, r.status, r.body)
			continue
		}
		if diff := cmp.Diff(want, into[gateway.Executed](t, r)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", code, diff)
		}
		var shape map[string]any
		must(t, json.Unmarshal(r.body, &shape))
		for _, name := range []string{"status", "stdout", "stderr", "exit_code", "execution_time_ms", "memory_used_mb"} {
			if _, ok := shape[name]; !ok {
				t.Errorf("%s: got no %s in %s", code, name, r.body)
			}
		}
	}
	w.ask(post("/execute", `{"code": "die"}`)).refused(t, "our failure", gateway.CodeUnavailable, 503)
	w.ask(post("/execute", `{"code": "1", "allow_network": true}`)).refused(t, "a network that no operator allows", gateway.CodeUnplaceable, 422)
}

func TestExecuteHoldsItsLimits(t *testing.T) {
	t.Parallel()
	w := start(t, setUp{})
	w.ask(post("/execute", `{"code": "1", "timeout_seconds": 4, "memory_limit_mb": 64, "cpu_limit": 0.25}`))
	w.ask(post("/execute", `{"code": "1"}`))
	jobs, err := w.store.History(t.Context(), "default", job.Filter{Batch: "execute"})
	must(t, err)
	if len(jobs) != 2 {
		t.Fatalf("got %d jobs, want 2", len(jobs))
	}
	for i, want := range []string{"cpu 30s wall 30s memory 256MiB", "cpu 1s wall 4s memory 64MiB"} {
		spec, err := w.store.Spec(t.Context(), "default", jobs[i].ID)
		must(t, err)
		l := spec.Limits.WithDefaults()
		if got := "cpu " + l.CPU.String() + " wall " + l.Wall.String() + " memory " + l.Memory.String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
