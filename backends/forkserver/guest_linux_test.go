package forkserver_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"airlock/backends"
	"airlock/backends/forkserver"
	"airlock/backends/internal/frame"
	"airlock/job"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"
)

// open gives a backend that probes well and is closed at the test's end, or
// skips.
func open(t testing.TB, config forkserver.Config) (*forkserver.Backend, backends.Capabilities) {
	t.Helper()
	config.Log = zerolog.New(zerolog.NewTestWriter(t))
	if config.Launcher == (forkserver.Launcher{}) {
		config.Launcher = launcher
	}
	b := forkserver.New(config)
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	caps, err := b.Probe(t.Context())
	if err != nil {
		required(t, forkserver.Name, err)
	}
	return b, caps
}

// required skips, or fails where the environment says that what is missing must
// be there.
func required(t testing.TB, name string, why any) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv("AIRLOCK_REQUIRE"), ","), name) {
		t.Fatalf("AIRLOCK_REQUIRE names %s: %v", name, why)
	}
	t.Skip(why)
}

// seen is what became of a guest.
type seen struct {
	outcome        backends.Outcome
	stdout, stderr string
	// value is the code's as JSON, fault its exception.
	value, fault string
}

// guest is one to run.
type guest struct {
	code   string
	vars   jsontext.Value
	files  []frame.File
	stdin  string
	limits job.Limits
	// enforce, tenant and template are the task's.
	enforce          []job.LimitName
	tenant, template string
	// first is called before anything is read; spoke is called when the guest has greeted, before it gets the job.
	first, spoke func(channel io.ReadWriteCloser) error
	// said is called with all that the guest has printed whenever it prints.
	said func(stdout string)
}

// run runs a guest that must have an outcome.
func (g guest) run(t testing.TB, b backends.Backend) seen {
	t.Helper()
	s, err := g.try(t.Context(), b)
	if err != nil {
		t.Fatalf("run: %v", err)
	}
	return s
}

// ran runs code that calls no tool.
func ran(t testing.TB, b backends.Backend, code string, limits job.Limits) seen {
	t.Helper()
	return guest{code: code, limits: limits}.run(t, b)
}

// works checks that the backend runs a guest as if nothing had been.
func works(t testing.TB, b backends.Backend) {
	t.Helper()
	s := ran(t, b, "return 6 * 7", job.Limits{})
	if s.value != "42" || s.outcome.Cause != backends.Exited || s.outcome.ExitCode != 0 {
		t.Errorf("got value %q, outcome %+v for the next guest, want 42; %s %s", s.value, s.outcome, s.fault, s.stderr)
	}
}

func (g guest) try(ctx context.Context, b backends.Backend) (s seen, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	stdout, stderr := &telling{said: g.said}, &bytes.Buffer{}
	s.outcome, err = b.Run(ctx, backends.Task{
		Job: job.NewID(), Attempt: 1, Limits: g.limits.WithDefaults(), Enforce: g.enforce, Tenant: cmp.Or(g.tenant, job.DefaultTenant), Template: g.template,
		Stdin: []byte(g.stdin), Stdout: stdout, Stderr: stderr,
		Serve: func(_ context.Context, channel io.ReadWriteCloser) error { return g.serve(&s, channel) },
	})
	s.stdout, s.stderr = stdout.String(), stderr.String()
	return s, err
}

// telling is a buffer that tells of what is written.
type telling struct {
	bytes.Buffer
	said func(string)
}

func (w *telling) Write(p []byte) (int, error) {
	n, err := w.Buffer.Write(p)
	if w.said != nil {
		w.said(w.String())
	}
	return n, err
}

// serve is the host's side; that a guest ends without a result is no error.
func (g guest) serve(s *seen, channel io.ReadWriteCloser) error {
	var hello, last frame.Request
	if g.first != nil {
		if err := g.first(channel); err != nil {
			return err
		}
	}
	if err := frame.Read(channel, &hello); err != nil {
		return quiet(err)
	}
	if g.spoke != nil {
		if err := g.spoke(channel); err != nil {
			return err
		}
	}
	params := frame.JobParams{
		Code: g.code, Vars: g.vars, Files: g.files,
		Limits: frame.Limits{Result: 16 << 20, Frame: frame.Max, Parallel: 1},
	}
	if err := frame.Write(channel, frame.Job{Method: "job", Params: params}); err != nil {
		return quiet(err)
	}
	if err := frame.Read(channel, &last); err != nil {
		return quiet(err)
	}
	if last.ID == nil {
		return fmt.Errorf("the guest says %q, want result", last.Method)
	}
	var result frame.Result
	if err := json.Unmarshal(last.Params, &result); err != nil {
		return err
	}
	s.value = string(result.Value)
	if result.Error != nil {
		s.fault = fmt.Sprintf("%s: %s\n%s", result.Error.Type, result.Error.Message, result.Error.Traceback)
	}
	return frame.Write(channel, frame.Reply{ID: *last.ID, OK: true})
}

// quiet makes nothing of a guest that has ended; what the kernel reports of it
// is the outcome's.
func quiet(err error) error {
	over := []error{io.EOF, io.ErrUnexpectedEOF, os.ErrClosed, syscall.EPIPE, syscall.ECONNRESET}
	if slices.ContainsFunc(over, func(e error) bool { return errors.Is(err, e) }) {
		return nil
	}
	return err
}

// running is a guest that goes on until it is cancelled or ends.
type running struct {
	cancel context.CancelFunc
	up     chan struct{}
	done   chan struct{}
	seen   seen
	err    error
}

// start starts a guest and returns when it has printed something, or has ended.
func (g guest) start(t testing.TB, b backends.Backend) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{cancel: cancel, up: make(chan struct{}), done: make(chan struct{})}
	up := sync.OnceFunc(func() { close(r.up) })
	g.said = func(string) { up() }
	go func() {
		defer close(r.done)
		r.seen, r.err = g.try(ctx, b)
	}()
	t.Cleanup(func() { cancel(); <-r.done })
	select {
	case <-r.up:
	case <-r.done:
	}
	return r
}

// end waits for the guest's own end.
func (r *running) end() (seen, error) {
	<-r.done
	return r.seen, r.err
}

func until(t testing.TB, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}
