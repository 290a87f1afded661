package worker_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"airlock/backends"
	"airlock/backends/fake"
	"airlock/job"
	"airlock/worker"
	"airlock/worker/trace"
)

// talks is a conversation in which everything happens.
type talks struct{ err *job.Error }

func (c talks) Serve(_ context.Context, _ *job.Attempt, _ io.ReadWriteCloser, clock job.Clock) (*job.Report, error) {
	r := &job.Report{Done: true, Value: jsontext.Value("1"), Error: c.err}
	for _, at := range []*time.Time{&r.Ready, &r.Sent, &r.Spoke, &r.Returned} {
		*at = time.Now()
	}
	clock.Start()
	return r, nil
}

// TestATraceHasEachPhaseInOrder also holds that nothing a guest said is in it.
func TestATraceHasEachPhaseInOrder(t *testing.T) {
	t.Parallel()
	const said42 = "guest-said-42"
	guest := []string{"claimed", "guest ready", "code sent", "first byte", "result", "guest gone"}
	told := []string{"committed", "acknowledged", "announced"}
	for _, tc := range []struct {
		name, status string
		tools        worker.ToolServer
		script       fake.Script
		ledger       *ledger
		cancelled    string
		want         []string
	}{
		{name: "ok", status: "ok", tools: talks{}, script: ends(backends.Outcome{Cause: backends.Exited}), want: slices.Concat(guest, told)},
		{name: "guest's failure", status: "guest_error", tools: talks{err: &job.Error{Type: said42, Message: said42}}, script: func(_ context.Context, g *fake.Guest) (backends.Outcome, error) {
			_, err := g.Task.Stdout.Write([]byte(said42))
			return backends.Outcome{Cause: backends.Exited, ExitCode: 1}, err
		}, want: slices.Concat(guest, told)},
		{name: "our failure", status: "infra_error", tools: said{report: &job.Report{}}, script: lost, want: []string{"claimed", "guest gone", "committed", "acknowledged"}},
		{name: "cancelled", status: "cancelled", tools: talks{}, script: lives, cancelled: "before", want: slices.Concat([]string{"claimed"}, told)},
		{name: "cancelled in its run", status: "cancelled", tools: talks{}, cancelled: "running", want: slices.Concat(guest, told)},
		{name: "ended before", status: "ended", ledger: &ledger{claim: job.Claim{Verdict: job.Ended}}, script: lives},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "trace.json")
			file, err := trace.Create(path, trace.Config{})
			if err != nil {
				t.Fatal(err)
			}
			if tc.ledger == nil {
				tc.ledger = &ledger{}
			}
			var b *bench
			if tc.cancelled == "running" {
				tc.script = func(ctx context.Context, _ *fake.Guest) (backends.Outcome, error) {
					b.Cancel(func(*job.Job) bool { return true })
					<-ctx.Done()
					return backends.Outcome{}, nil
				}
			}
			b = newBench(t, tc.ledger, tc.tools, tc.script, func(j *job.Job, cfg *workerConfig) {
				j.Code = "# " + said42
				cfg.Trace = file
				cfg.Cancelled = func(*job.Job) bool { return tc.cancelled == "before" }
			})
			b.Handle(t.Context(), b.delivery())
			if err := file.Close(); err != nil {
				t.Fatal(err)
			}
			got := phasesOf(t, path, tc.status)
			if slices.Contains(got, "announced") {
				slices.Sort(got[len(got)-2:]) // both are told at once
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("phases (-want +got):\n%s", diff)
			}
			if raw, err := os.ReadFile(path); err != nil || strings.Contains(string(raw), said42) {
				t.Errorf("the guest's words are in the trace, or error %v:\n%s", err, raw)
			}
		})
	}
}

// phasesOf are the names of a trace's slices in the order of their begin; each
// must begin where the one before it ended.
func phasesOf(t *testing.T, path, status string) (names []string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var events []struct {
		Phase  string         `json:"ph"`
		Name   string         `json:"name"`
		At     int64          `json:"ts"`
		Length int64          `json:"dur"`
		Args   map[string]any `json:"args"`
	}
	if err := json.Unmarshal(raw, &events); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	var at int64
	for _, e := range events {
		switch {
		case e.Name == "job", e.Name == "end of job":
			if e.Args["status"] != status {
				t.Errorf("got status %v, want %s", e.Args["status"], status)
			}
			at = e.At
		case e.Phase == "X":
			if e.At != at {
				t.Errorf("%s begins at %d, want %d, where the one before it ended", e.Name, e.At, at)
			}
			at = e.At + e.Length
			names = append(names, e.Name)
		}
	}
	return names
}
