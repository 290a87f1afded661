package worker_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"airlock/backends"
	"airlock/backends/fake"
	"airlock/job"
	"airlock/worker"
)

func TestEachEndHasOneStatus(t *testing.T) {
	t.Parallel()
	now := time.Now()
	value := &job.Report{Ready: now, Done: true, Value: []byte("1")}
	failed := func(edit func(*job.Report)) *job.Report {
		r := &job.Report{Ready: now, Done: true, Error: &job.Error{Type: "ValueError", Message: "no"}}
		edit(r)
		return r
	}
	exited := func(code int) backends.Outcome { return backends.Outcome{Cause: backends.Exited, ExitCode: code} }
	for _, tc := range []struct {
		name    string
		report  *job.Report
		serve   error
		outcome backends.Outcome
		lost    error
		want    job.Status
		errType string
		retried bool
	}{
		{name: "value, then exit 0", report: value, outcome: exited(0), want: job.StatusOK},
		{name: "value, then exit 3", report: value, outcome: exited(3), want: job.StatusGuestError, errType: "exit"},
		{name: "value, then a signal", report: value, outcome: backends.Outcome{Cause: backends.Signalled, Signal: "SIGSEGV"},
			want: job.StatusGuestError, errType: "signal"},
		{name: "value, then killed for memory", report: value, outcome: backends.Outcome{Cause: backends.OutOfMemory, Signal: "SIGKILL"},
			want: job.StatusMemoryLimit, errType: "memory_limit"},
		{name: "exception", report: failed(func(*job.Report) {}), outcome: exited(1), want: job.StatusGuestError, errType: "ValueError"},
		{name: "exit 0 without a result", report: &job.Report{Ready: now}, outcome: exited(0), want: job.StatusNoResult, errType: "no_result"},
		{name: "exit 137 by itself", report: &job.Report{Ready: now}, outcome: exited(137), want: job.StatusGuestError, errType: "exit"},
		{name: "exit 124 by itself", report: &job.Report{Ready: now}, outcome: exited(124), want: job.StatusGuestError, errType: "exit"},
		{name: "out of cpu", report: &job.Report{Ready: now}, outcome: backends.Outcome{Cause: backends.OutOfCPU}, want: job.StatusCPULimit, errType: "cpu_limit"},
		{name: "system call", report: &job.Report{Ready: now}, outcome: backends.Outcome{Cause: backends.Violated, Signal: "SIGSYS"},
			want: job.StatusPolicyViolation, errType: "system_call"},
		{name: "breach, killed", report: &job.Report{Ready: now, Breach: "unknown method"}, serve: errors.New("breach"),
			outcome: backends.Outcome{Cause: backends.Killed}, want: job.StatusPolicyViolation, errType: "protocol"},
		{name: "breach, gone by itself", report: &job.Report{Ready: now, Breach: "frame cut off"}, outcome: exited(0),
			want: job.StatusPolicyViolation, errType: "protocol"},
		{name: "tool limit behind an exception", report: failed(func(r *job.Report) { r.ToolLimited = true }), outcome: exited(1),
			want: job.StatusToolLimit, errType: "ValueError"},
		{name: "tool limit that the guest took well", report: &job.Report{Ready: now, Done: true, Value: []byte("1"), ToolLimited: true},
			outcome: exited(0), want: job.StatusOK},
		{name: "result limit", report: &job.Report{Ready: now, Done: true, ResultLimited: true}, outcome: exited(0),
			want: job.StatusResultLimit, errType: "result_limit"},
		{name: "disk full behind an exception", report: failed(func(*job.Report) {}),
			outcome: backends.Outcome{Cause: backends.Exited, ExitCode: 1, DiskFull: true}, want: job.StatusDiskLimit, errType: "ValueError"},
		{name: "processes full behind an exception", report: failed(func(*job.Report) {}),
			outcome: backends.Outcome{Cause: backends.Exited, ExitCode: 1, ProcessesFull: 2}, want: job.StatusProcessLimit, errType: "ValueError"},
		{name: "audit lost, gone by itself", report: value, serve: errors.New("audit"), outcome: exited(0), want: job.StatusInfraError,
			errType: "channel_error", retried: true},
		{name: "no hello, exit 1", report: &job.Report{}, outcome: exited(1), want: job.StatusInfraError, errType: "guest_did_not_start", retried: true},
		{name: "no hello in time", report: &job.Report{}, serve: errors.New("no hello"), outcome: backends.Outcome{Cause: backends.Killed},
			want: job.StatusInfraError, errType: "guest_did_not_start", retried: true},
		{name: "backend lost the guest", report: value, lost: errors.New("daemon went away"), want: job.StatusInfraError,
			errType: "backend_error", retried: true},
		{name: "limit the backend cannot hold", report: value, lost: backends.ErrUnenforceable, want: job.StatusInfraError,
			errType: "limit_unenforceable", retried: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			script := func(context.Context, *fake.Guest) (backends.Outcome, error) { return tc.outcome, tc.lost }
			b := newBench(t, &ledger{}, said{report: tc.report, err: tc.serve}, script, nil)
			b.Handle(t.Context(), b.delivery())

			got := b.ledger.last()
			if got.Status != tc.want {
				t.Errorf("status: got %s (%+v), want %s", got.Status, got.Error, tc.want)
			}
			if tc.errType != "" && (got.Error == nil || got.Error.Type != tc.errType) {
				t.Errorf("error: got %+v, want type %s", got.Error, tc.errType)
			}
			want := []string{"finish", "ack", "announce", "announced"}
			if tc.retried {
				want = []string{"retry", "ack"}
			}
			if diff := cmp.Diff(want, b.ledger.seen()); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
			if (got.Value != nil) != (got.Status == job.StatusOK) {
				t.Errorf("value %s beside status %s", got.Value, got.Status)
			}
		})
	}
}

func TestAPanicIsOneJobsFailure(t *testing.T) {
	t.Parallel()
	script := func(context.Context, *fake.Guest) (backends.Outcome, error) { panic("a bug") }
	b := newBench(t, &ledger{}, said{report: &job.Report{}}, script, nil)
	b.Handle(t.Context(), b.delivery())
	if r := b.ledger.last(); r.Status != job.StatusInfraError || r.Error.Message != "panic: a bug" {
		t.Errorf("got %s, %+v; want infra_error that names the panic", r.Status, r.Error)
	}
}

func TestFactsBesideTheStatus(t *testing.T) {
	t.Parallel()
	report := &job.Report{Ready: time.Now(), Done: true, Value: []byte("1"), Events: []job.Event{{Kind: job.EventUnawaited, Note: "math.add"}}}
	outcome := backends.Outcome{Cause: backends.Exited, OOMKills: 2, ProcessesFull: 3, DiskFull: true}
	b := newBench(t, &ledger{}, said{report: report}, ends(outcome), nil)
	b.Handle(t.Context(), b.delivery())

	want := []job.Event{
		{Kind: job.EventOOM, Count: 2}, {Kind: job.EventProcessesFull, Count: 3}, {Kind: job.EventDiskFull, Count: 1},
		{Kind: job.EventUnawaited, Note: "math.add"},
	}
	if diff := cmp.Diff(want, b.ledger.last().Events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if got := b.ledger.last().Status; got != job.StatusOK {
		t.Errorf("status: got %s, want ok", got)
	}
}

func TestOnlyAGuestThatCameToItsEndBringsFilesBack(t *testing.T) {
	t.Parallel()
	files := []job.Artifact{{Path: "a", Content: []byte("x")}}
	raised := &job.Error{Type: "E"}
	for _, tc := range []struct {
		name    string
		report  job.Report
		outcome backends.Outcome
		status  job.Status
		kept    bool
	}{
		{"a value", job.Report{Done: true}, backends.Outcome{Cause: backends.Exited}, job.StatusOK, true},
		{"an exception", job.Report{Done: true, Error: raised}, backends.Outcome{Cause: backends.Exited, ExitCode: 1}, job.StatusGuestError, true},
		{"an exit code after a value", job.Report{Done: true}, backends.Outcome{Cause: backends.Exited, ExitCode: 3}, job.StatusGuestError, false},
		{"a limit behind the exception", job.Report{Done: true, Error: raised}, backends.Outcome{Cause: backends.Exited, ExitCode: 1, DiskFull: true}, job.StatusDiskLimit, false},
		{"a value too large", job.Report{Done: true, ResultLimited: true}, backends.Outcome{Cause: backends.Exited}, job.StatusResultLimit, false},
		{"no result", job.Report{}, backends.Outcome{Cause: backends.Exited}, job.StatusNoResult, false},
		{"a kill for memory after the result", job.Report{Done: true}, backends.Outcome{Cause: backends.OutOfMemory}, job.StatusMemoryLimit, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tc.report.Ready, tc.report.Artifacts = time.Now(), files
			b := newBench(t, &ledger{}, said{report: &tc.report}, ends(tc.outcome), nil)
			b.Handle(t.Context(), b.delivery())
			got := b.ledger.last()
			if got.Status != tc.status || (len(got.Artifacts) == 1) != tc.kept {
				t.Errorf("got %s with %d files, want %s and files: %v", got.Status, len(got.Artifacts), tc.status, tc.kept)
			}
		})
	}
}

func TestOutputIsKeptToItsLimitAndCounted(t *testing.T) {
	t.Parallel()
	script := func(_ context.Context, g *fake.Guest) (backends.Outcome, error) {
		for range 50 {
			_, _ = g.Task.Stdout.Write(make([]byte, 4000))
		}
		_, _ = g.Task.Stderr.Write([]byte("few"))
		return backends.Outcome{Cause: backends.Exited}, nil
	}
	b := newBench(t, &ledger{}, said{report: &job.Report{Ready: time.Now(), Done: true}}, script, nil)
	b.Handle(t.Context(), b.delivery())
	r := b.ledger.last()
	if len(r.Stdout) != 65536 || r.StdoutBytes != 200_000 || !r.StdoutTruncated {
		t.Errorf("stdout: got %d kept of %d, truncated %v; want 65536 of 200000, true", len(r.Stdout), r.StdoutBytes, r.StdoutTruncated)
	}
	if string(r.Stderr) != "few" || r.StderrBytes != 3 || r.StderrTruncated {
		t.Errorf("stderr: got %q of %d, truncated %v; want all of 3", r.Stderr, r.StderrBytes, r.StderrTruncated)
	}
}

func TestAFloodOfOutputEndsTheGuest(t *testing.T) {
	t.Parallel()
	script := func(ctx context.Context, g *fake.Guest) (backends.Outcome, error) {
		chunk := make([]byte, 1<<20)
		for ctx.Err() == nil {
			_, _ = g.Task.Stdout.Write(chunk)
		}
		return backends.Outcome{}, nil
	}
	b := newBench(t, &ledger{}, said{}, script, nil)
	b.Handle(t.Context(), b.delivery())
	if r := b.ledger.last(); r.Status != job.StatusOutputLimit || len(r.Stdout) != 65536 {
		t.Errorf("got %s with %d bytes kept, want output_limit with 65536", r.Status, len(r.Stdout))
	}
}

func TestAnAttemptThatShouldNotStart(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		edit func(*job.Job, *worker.Config)
		late bool
		want job.Status
	}{
		{name: "cancelled before", edit: func(_ *job.Job, c *worker.Config) { c.Cancelled = func(*job.Job) bool { return true } }, want: job.StatusCancelled},
		{name: "deadline passed", edit: func(j *job.Job, _ *worker.Config) { j.Deadline = time.Now().Add(-time.Second) }, want: job.StatusExpired},
		{name: "above the operator's maximum", edit: func(_ *job.Job, c *worker.Config) { c.Max.Memory = 64 * job.MiB }, want: job.StatusInfraError},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			ran := false
			script := func(context.Context, *fake.Guest) (backends.Outcome, error) {
				ran = true
				return backends.Outcome{Cause: backends.Exited}, nil
			}
			b := newBench(t, &ledger{}, said{report: &job.Report{}}, script, tc.edit)
			b.Handle(t.Context(), b.delivery())
			if ran {
				t.Error("the guest was started")
			}
			if got := b.ledger.last(); got.Status != tc.want {
				t.Errorf("status: got %s (%+v), want %s", got.Status, got.Error, tc.want)
			}
			if got := b.ledger.seen()[0]; got != "finish" {
				t.Errorf("first step: got %s, want finish, not a retry", got)
			}
		})
	}
}
