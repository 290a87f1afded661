package wasm_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"airlock/backends"
	"airlock/backends/internal/frame"
	"airlock/backends/internal/wasmguest"
	"airlock/backends/wasm"
	"airlock/job"

	"github.com/rs/zerolog"
)

// newBackend makes one around a module that stands for Python.
func newBackend(t *testing.T, run []byte) *wasm.Backend {
	t.Helper()
	return newBackendIn(t, installed(t, module(run)), privateDir(t), zerolog.New(zerolog.NewTestWriter(t)))
}

func newBackendIn(t *testing.T, python, cache string, log zerolog.Logger) *wasm.Backend {
	t.Helper()
	b := wasm.New(wasm.Here(wasm.Config{Helper: helper, Python: python, Cache: cache, Log: log}))
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return b
}

func privateDir(t *testing.T) string {
	t.Helper()
	return filepath.Join(tempDir(t), "cache")
}

// said is what became of a guest.
type said struct {
	outcome backends.Outcome
	stderr  bytes.Buffer
}

// runGuest runs a guest whose conversation this package's host holds.
func runGuest(t *testing.T, b backends.Backend, limits job.Limits, serve func(context.Context, io.ReadWriteCloser) error) *said {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	got := &said{}
	var err error
	got.outcome, err = b.Run(ctx, backends.Task{
		Job: job.NewID(), Attempt: 1, Limits: limits.WithDefaults(), Stdout: io.Discard, Stderr: &got.stderr, Serve: serve,
	})
	if err != nil {
		t.Fatalf("run: %v", err)
	}
	if ctx.Err() != nil {
		t.Fatalf("the guest had to be killed; its stderr: %s", got.stderr.String())
	}
	return got
}

// hold holds the shortest conversation.
func hold(_ context.Context, channel io.ReadWriteCloser) error {
	var hello, result frame.Request
	if err := frame.Read(channel, &hello); err != nil {
		return nil // what became of the guest is its outcome
	}
	if err := frame.Write(channel, frame.Job{Method: "job", Params: frame.JobParams{Code: "pass"}}); err != nil {
		return nil
	}
	if err := frame.Read(channel, &result); err != nil {
		return nil
	}
	_ = frame.Write(channel, frame.Reply{ID: *result.ID, OK: true})
	return nil
}

// TestEnds: how a module ends is told as a native program's end is.
func TestEnds(t *testing.T) {
	t.Parallel()
	forever := []byte{0x03, 0x40, 0x0c, 0, 0x0b, 0x41, 0}
	// Grows until it cannot, and returns the number of pages it then has.
	grow := []byte{0x03, 0x40, 0x41, 1, 0x40, 0, 0x41, 0x7f, 0x47, 0x0d, 0, 0x0b, 0x3f, 0, 0x41, 8, 0x76}
	for _, tt := range []struct {
		name   string
		run    []byte
		limits job.Limits
		want   backends.Outcome
	}{
		{name: "code 7", run: join(converse(), constant(7)), want: backends.Outcome{Cause: backends.Exited, ExitCode: 7}},
		{name: "unreachable", run: join(converse(), []byte{0}), want: backends.Outcome{Cause: backends.Signalled, Signal: "SIGABRT"}},
		{name: "beyond its memory", run: join(converse(), constant(1<<30), []byte{0x2d, 0, 0}), want: backends.Outcome{Cause: backends.Signalled, Signal: "SIGSEGV"}},
		{
			name: "a loop without an end", run: join(converse(), forever), limits: job.Limits{CPU: job.Duration(time.Second)},
			want: backends.Outcome{Cause: backends.OutOfCPU, Signal: "SIGKILL"},
		},
		{
			// 32 MiB are 512 pages, shifted by eight bits.
			name: "all of its memory", run: join(converse(), grow), limits: job.Limits{Memory: 32 * job.MiB},
			want: backends.Outcome{Cause: backends.Exited, ExitCode: 2},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.want.Cause == backends.OutOfCPU {
				needsAccounting(t)
			}
			got := runGuest(t, newBackend(t, tt.run), tt.limits, hold)
			if got.outcome.Cause != tt.want.Cause || got.outcome.ExitCode != tt.want.ExitCode || got.outcome.Signal != tt.want.Signal {
				t.Errorf("got %+v, want %+v; stderr: %s", got.outcome, tt.want, got.stderr.String())
			}
		})
	}
}

// TestMemoryIsNew: what a guest wrote into its memory no later one reads.
func TestMemoryIsNew(t *testing.T) {
	t.Parallel()
	const at = 150_000 // in the last page, which the conversation does not touch
	read := join(constant(at), []byte{0x2d, 0, 0})
	write := join(constant(at), constant(7), []byte{0x3a, 0, 0})
	for _, tt := range []struct {
		name string
		run  []byte
		want int
	}{
		{"read, then written", join(converse(), read, write), 0},
		{"written, then read", join(converse(), write, read), 7},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBackend(t, tt.run)
			for n := range 5 {
				got := runGuest(t, b, job.Limits{}, hold)
				if got.outcome.Cause != backends.Exited || got.outcome.ExitCode != tt.want {
					t.Errorf("guest %d: got %+v, want code %d; stderr: %s", n, got.outcome, tt.want, got.stderr.String())
				}
			}
		})
	}
}

// TestKilled: a guest that does nothing for ever dies with its run.
func TestKilled(t *testing.T) {
	t.Parallel()
	b := newBackend(t, join(send(helloAt, len(sayHello)), []byte{0x03, 0x40, 0x0c, 0, 0x0b, 0x41, 0}))
	failure := errors.New("enough")
	got := runGuest(t, b, job.Limits{}, func(_ context.Context, channel io.ReadWriteCloser) error {
		var hello frame.Request
		return errors.Join(frame.Read(channel, &hello), failure)
	})
	if got.outcome.Cause != backends.Killed {
		t.Errorf("got %+v, want a killed guest", got.outcome)
	}
}

// TestProbe: what the backend says of itself once a guest has run.
func TestProbe(t *testing.T) {
	t.Parallel()
	can, err := newBackend(t, join(converse(), constant(0))).Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if can.Backend != "wasm" || can.Isolation != job.IsolationStrong || can.Labels["no-native-extensions"] != "true" || can.Python != "3.13.0" {
		t.Errorf("got %+v, want the backend wasm at strong, with its label and version of Python", can.Offer)
	}
	if len(can.Limits) != len(job.KernelLimits()) {
		t.Errorf("got the limits %v, want all of %v: %v", can.Limits, job.KernelLimits(), can.Isolated.Limits)
	}
}

// TestUnavailable: what is missing is named, with how to get it.
func TestUnavailable(t *testing.T) {
	t.Parallel()
	spoiled := installed(t, module(constant(0)))
	if err := os.WriteFile(filepath.Join(spoiled, "stdlib.zip"), []byte("other"), 0o644); err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(tempDir(t), "cache")
	if err := errors.Join(os.Mkdir(foreign, 0o755), os.Chmod(foreign, 0o777)); err != nil {
		t.Fatal(err)
	}
	good := installed(t, module(join(converse(), constant(0))))
	for _, tt := range []struct {
		name   string
		config wasm.Config
		want   string
	}{
		{"no interpreter", wasm.Config{Helper: helper, Python: tempDir(t)}, "make wasm"},
		{"no helper", wasm.Config{Python: good}, "wasm.Main"},
		{"another library than was built", wasm.Config{Helper: helper, Python: spoiled}, "make wasm"},
		{"no module", wasm.Config{Helper: helper, Python: installed(t, []byte("ELF"))}, "make wasm"},
		{"a module of another kind", wasm.Config{Helper: helper, Python: installed(t, []byte("\x00asm\x01\x00\x00\x00"))}, "make wasm"},
		{"a cache for everybody", wasm.Config{Helper: helper, Python: good, Cache: foreign}, "may reach it"},
		{"a guest that crashes", wasm.Config{Helper: helper, Python: installed(t, module([]byte{0}))}, "crashed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.config.Cache == "" {
				tt.config.Cache = privateDir(t)
			}
			b := wasm.New(wasm.Here(tt.config))
			defer b.Close()
			_, err := b.Probe(t.Context())
			if !errors.Is(err, backends.ErrUnavailable) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want ErrUnavailable that names %q", err, tt.want)
			}
		})
	}
}

// TestCache: compiled code is used again as long as it is what was written.
func TestCache(t *testing.T) {
	t.Parallel()
	python, cache := installed(t, module(join(converse(), constant(0)))), privateDir(t)
	probe := func() string {
		var log bytes.Buffer
		if _, err := newBackendIn(t, python, cache, zerolog.New(&log)).Probe(t.Context()); err != nil {
			t.Fatal(err)
		}
		return log.String()
	}
	probe()
	if log := probe(); strings.Contains(log, "anew") {
		t.Errorf("got log %q from the second start, want nothing compiled", log)
	}
	compiled, err := filepath.Glob(filepath.Join(cache, "*", "wazero*", "*"))
	if err != nil || len(compiled) == 0 {
		t.Fatalf("got %v and error %v in the cache, want compiled code", compiled, err)
	}
	guests, err := filepath.Glob(filepath.Join(cache, "*", "guests", "*", "*"))
	if err != nil || len(guests) != 1 {
		t.Fatalf("got %v and error %v in the cache, want the code of guests", guests, err)
	}
	for name, spoil := range map[string]func() error{
		"another byte":    func() error { return appendTo(compiled[0], "x") },
		"guests' code":    func() error { return appendTo(guests[0], "x") },
		"one file more":   func() error { return os.WriteFile(compiled[0]+"x", []byte("x"), 0o600) },
		"one file less":   func() error { return os.Remove(compiled[0]) },
		"a link":          func() error { return errors.Join(os.Remove(compiled[0]), os.Symlink("/etc/hostname", compiled[0])) },
		"no digests":      func() error { return os.Remove(digestsOf(t, cache)) },
		"digests of none": func() error { return os.WriteFile(digestsOf(t, cache), []byte("{}"), 0o600) },
	} {
		if err := spoil(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if log := probe(); !strings.Contains(log, "anew") {
			t.Errorf("%s: got log %q, want that compiled code is made anew", name, log)
		}
		if log := probe(); strings.Contains(log, "anew") {
			t.Errorf("%s: got log %q from the start after, want nothing compiled", name, log)
		}
	}
}

// TestCodeGone: guests run also when somebody has removed their compiled code.
func TestCodeGone(t *testing.T) {
	t.Parallel()
	cache := privateDir(t)
	b := newBackendIn(t, installed(t, module(join(converse(), constant(7)))), cache, zerologOf(t))
	if _, err := b.Run(t.Context(), backends.Task{Job: job.NewID(), Limits: job.DefaultLimits(), Stdout: io.Discard, Stderr: io.Discard, Serve: hold}); err != nil {
		t.Fatal(err)
	}
	guests, err := filepath.Glob(filepath.Join(cache, "*", "guests"))
	if err != nil || len(guests) != 1 {
		t.Fatalf("got %v and error %v, want one directory of guests' code", guests, err)
	}
	if err := wasmguest.RemoveTree(guests[0]); err != nil {
		t.Fatal(err)
	}
	if got := runGuest(t, b, job.Limits{}, hold); got.outcome.Cause != backends.Exited || got.outcome.ExitCode != 7 {
		t.Errorf("got %+v and stderr %q, want exit code 7", got.outcome, got.stderr.String())
	}
}

func digestsOf(t *testing.T, cache string) string {
	found, err := filepath.Glob(filepath.Join(cache, "*", "digests.json"))
	if err != nil || len(found) != 1 {
		t.Fatalf("got %v and error %v, want one file of digests", found, err)
	}
	return found[0]
}

func appendTo(path, what string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(data, what...), 0o600)
}

// TestMemoryForTheInterpreter: a limit in which nothing could run is refused.
func TestMemoryForTheInterpreter(t *testing.T) {
	t.Parallel()
	b := newBackend(t, join(converse(), constant(0)))
	limits := job.DefaultLimits()
	limits.Memory = job.MiB
	_, err := b.Run(t.Context(), backends.Task{Job: job.NewID(), Limits: limits})
	if !errors.Is(err, backends.ErrUnenforceable) {
		t.Errorf("got %v, want ErrUnenforceable", err)
	}
}

func zerologOf(t *testing.T) zerolog.Logger { return zerolog.New(zerolog.NewTestWriter(t)) }
