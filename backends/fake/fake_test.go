package fake_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"airlock/backends"
	"airlock/backends/fake"
	"airlock/backends/internal/frame"
	"airlock/job"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// worker is the least that can hold a conversation: it sends code, answers
// every call of math.add with its arguments and refuses all others.
type worker struct {
	code           string
	stdout, stderr bytes.Buffer
	result         *frame.Result
}

func (w *worker) task() backends.Task {
	return backends.Task{
		Job: job.NewID(), Attempt: 1, Limits: job.DefaultLimits(),
		Stdout: &w.stdout, Stderr: &w.stderr, Serve: w.serve,
	}
}

func (w *worker) serve(ctx context.Context, channel io.ReadWriteCloser) error {
	defer context.AfterFunc(ctx, func() { _ = channel.Close() })()
	for {
		var r frame.Request
		err := frame.Read(channel, &r)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) || ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if err := w.answer(channel, r); err != nil {
			return err
		}
	}
}

func (w *worker) answer(channel io.Writer, r frame.Request) error {
	switch r.Method {
	case "hello":
		return frame.Write(channel, frame.Job{Method: "job", Params: frame.JobParams{Code: w.code}})
	case "result":
		w.result = &frame.Result{}
		if err := json.Unmarshal(r.Params, w.result); err != nil {
			return err
		}
		return frame.Write(channel, frame.Reply{ID: *r.ID, OK: true})
	}
	var call frame.Call
	if err := json.Unmarshal(r.Params, &call); err != nil {
		return err
	}
	if call.Namespace != "math" || call.Name != "add" {
		return frame.Write(channel, frame.Reply{ID: *r.ID, Error: &frame.Refusal{Code: "not_granted", Message: "no", Retryable: true}})
	}
	return frame.Write(channel, frame.Reply{ID: *r.ID, OK: true, Value: call.Arguments})
}

func TestDirected(t *testing.T) {
	t.Parallel()
	exited := backends.Outcome{Cause: backends.Exited}
	value := func(v string) *frame.Result { return &frame.Result{Value: jsontext.Value(v)} }
	for _, tt := range []struct {
		name, code string
		outcome    backends.Outcome
		result     *frame.Result
		stdout     string
	}{
		{name: "any code returns null", code: "print(1)", outcome: exited, result: value("null")},
		{name: "value", code: `{"fake": {"value": [1, "a"]}}`, outcome: exited, result: value(`[1,"a"]`)},
		{name: "output and exit code", code: `{"fake": {"stdout": "hi", "exit_code": 3}}`,
			outcome: backends.Outcome{Cause: backends.Exited, ExitCode: 3}, result: value("null"), stdout: "hi"},
		{name: "calls give their answers", code: `{"fake": {"calls": [
			{"namespace": "math", "name": "add", "arguments": {"a": 1}}, {"namespace": "math", "name": "div"}]}}`,
			outcome: exited, result: value(`[{"a":1},{"code":"not_granted","message":"no"}]`)},
		{name: "parallel calls", code: `{"fake": {"parallel": true, "calls": [
			{"namespace": "math", "name": "add", "arguments": {"a": 1}}, {"namespace": "math", "name": "add", "arguments": {"a": 2}}]}}`,
			outcome: exited, result: value(`[{"a":1},{"a":2}]`)},
		{name: "exception", code: `{"fake": {"error": {"type": "ValueError", "message": "no"}, "exit_code": 1}}`,
			outcome: backends.Outcome{Cause: backends.Exited, ExitCode: 1},
			result:  &frame.Result{Error: &frame.Exception{Type: "ValueError", Message: "no"}}},
		{name: "a limit leaves no result", code: `{"fake": {"cause": "out of memory", "oom_kills": 1, "peak_memory": "64MiB"}}`,
			outcome: backends.Outcome{Cause: backends.OutOfMemory, OOMKills: 1, PeakMemory: 64 * job.MiB}},
		{name: "signal", code: `{"fake": {"cause": "signalled", "signal": "SIGSEGV"}}`,
			outcome: backends.Outcome{Cause: backends.Signalled, Signal: "SIGSEGV"}},
		{name: "no result", code: `{"fake": {"no_result": true}}`, outcome: exited},
		{name: "unknown directive", code: `{"fake": {"slep": 1}}`, outcome: exited,
			result: &frame.Result{Error: &frame.Exception{Type: "DirectiveError", Message: "fake.slep: unknown field"}}},
		{name: "unknown cause", code: `{"fake": {"cause": "bored"}}`, outcome: exited,
			result: &frame.Result{Error: &frame.Exception{Type: "DirectiveError", Message: `cause "bored" is none of those a guest can end by`}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := &worker{code: tt.code}
			b := fake.New(fake.Config{})
			defer b.Close()
			got, err := b.Run(t.Context(), w.task())
			if err != nil {
				t.Fatal(err)
			}
			tt.outcome.CPU, tt.outcome.PeakProcesses = got.CPU, 1
			if diff := cmp.Diff(tt.outcome, got); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.result, w.result); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			if got := w.stdout.String(); got != tt.stdout {
				t.Errorf("got stdout %q, want %q", got, tt.stdout)
			}
		})
	}
}

func TestScriptedFailureIsAnError(t *testing.T) {
	t.Parallel()
	b := fake.New(fake.Config{Script: fake.Play(fake.Step{Fail: "lost the host"})})
	_, err := b.Run(t.Context(), (&worker{}).task())
	if !errors.Is(err, fake.ErrScripted) {
		t.Errorf("got error %v, want one that wraps ErrScripted", err)
	}
}

func TestEndsByForce(t *testing.T) {
	t.Parallel()
	forever := `{"fake": {"sleep": "1h"}}`
	ends := map[string]func(ctx context.Context, cancel func(), b *fake.Backend, w *worker) backends.Task{
		"ctx ends": func(_ context.Context, cancel func(), _ *fake.Backend, w *worker) backends.Task {
			task := w.task()
			task.Serve = func(ctx context.Context, ch io.ReadWriteCloser) error {
				cancel()
				return w.serve(ctx, ch)
			}
			return task
		},
		"serve fails": func(_ context.Context, _ func(), _ *fake.Backend, w *worker) backends.Task {
			task := w.task()
			task.Serve = func(context.Context, io.ReadWriteCloser) error { return errors.New("breach") }
			return task
		},
		"backend closes": func(_ context.Context, _ func(), b *fake.Backend, w *worker) backends.Task {
			task := w.task()
			closed := make(chan struct{})
			t.Cleanup(func() { <-closed })
			task.Serve = func(ctx context.Context, ch io.ReadWriteCloser) error {
				go func() { defer close(closed); b.Close() }()
				return w.serve(ctx, ch)
			}
			return task
		},
	}
	for name, arrange := range ends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			b := fake.New(fake.Config{})
			w := &worker{code: forever}
			got, err := b.Run(ctx, arrange(ctx, cancel, b, w))
			if err != nil {
				t.Fatal(err)
			}
			if got.Cause != backends.Killed {
				t.Errorf("got cause %v, want %v", got.Cause, backends.Killed)
			}
		})
	}
}

func TestGuestsThatBreakTheProtocol(t *testing.T) {
	t.Parallel()
	b := fake.New(fake.Config{Script: fake.Play(fake.Step{Junk: []byte("\xff\xff\xff\xff")})})
	got, err := b.Run(t.Context(), (&worker{}).task())
	if err != nil {
		t.Fatal(err)
	}
	if got.Cause != backends.Killed {
		t.Errorf("got cause %v, want %v, since Serve refused the frame", got.Cause, backends.Killed)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	b := fake.New(fake.Config{Limits: []job.LimitName{job.LimitCPU}})
	task := (&worker{}).task()
	task.Enforce = []job.LimitName{job.LimitCPU, job.LimitMemory}
	if _, err := b.Run(t.Context(), task); !errors.Is(err, backends.ErrUnenforceable) {
		t.Errorf("a limit it does not claim: got %v, want ErrUnenforceable", err)
	}
	if err := errors.Join(b.Close(), b.Close()); err != nil {
		t.Errorf("close twice: %v", err)
	}
	task.Enforce = nil
	if _, err := b.Run(t.Context(), task); !errors.Is(err, backends.ErrClosed) {
		t.Errorf("after Close: got %v, want ErrClosed", err)
	}
	sick := fake.New(fake.Config{ProbeError: errors.New("no kernel")})
	if _, err := sick.Probe(t.Context()); !errors.Is(err, backends.ErrUnavailable) {
		t.Errorf("probe: got %v, want ErrUnavailable", err)
	}
}

func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	b := fake.New(fake.Config{})
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			w := &worker{code: `{"fake": {"sleep": 0.001, "value": 7}}`}
			if _, err := b.Run(t.Context(), w.task()); err != nil || string(w.result.Value) != "7" {
				t.Errorf("got %v and error %v, want 7", w.result, err)
			}
		})
	}
	all.Wait()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
}

func BenchmarkRun(b *testing.B) {
	backend := fake.New(fake.Config{})
	began := time.Now()
	for b.Loop() {
		if _, err := backend.Run(b.Context(), (&worker{code: "1"}).task()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "guests/s")
}
