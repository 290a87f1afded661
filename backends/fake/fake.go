// Package fake is a backend whose guests are played by Go functions instead of
// interpreters. It runs no code of a job: it shows how the worker, its broker
// and the control plane behave for every way a guest can end, in microseconds
// and without a sandbox.
//
// A guest speaks broker/PROTOCOL.md on the channel that Task.Serve is given,
// in process. What it does is a Script. The default, Directed, reads the job's
// code as a directive, so that real submissions steer it:
//
//	{"fake": {"stdout": "hi\n", "sleep": "50ms", "value": 1}}
//	{"fake": {"calls": [{"namespace": "math", "name": "add", "arguments": {"a": 1, "b": 2}}]}}
//	{"fake": {"cause": "out of memory"}}
//
// and answers any other code with the value null.
package fake

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"sync"
	"time"

	"airlock/backends"
	"airlock/job"
)

// Name is what the backend is called in requirements and results.
const Name = "fake"

// Script plays one guest. What it returns is what Run returns, except that a
// guest whose ctx ended, or whose conversation failed, is reported as killed.
// It must return soon after ctx ends; every method of Guest does. The zero
// Outcome stands for an exit with code 0.
type Script func(ctx context.Context, g *Guest) (backends.Outcome, error)

// Config says what the guests do and what the backend claims. The zero value
// is a backend of directed guests that claims no isolation and holds no
// limit.
type Config struct {
	// Script plays each guest; nil means Directed.
	Script Script
	// Isolation is the level claimed; "" means none. Only a test of what
	// stands above a backend has a reason to claim more.
	Isolation job.Isolation
	// Limits are the limits that the backend claims to hold.
	Limits []job.LimitName
	// ProbeError is returned by Probe, when set.
	ProbeError error
}

// Backend plays guests.
type Backend struct {
	cfg Config

	// mu guards closed, and orders running.Add before running.Wait.
	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup
	stop    chan struct{}
}

var _ backends.Backend = (*Backend)(nil)

// New makes a backend.
func New(cfg Config) *Backend {
	if cfg.Script == nil {
		cfg.Script = Directed
	}
	cfg.Isolation = cmp.Or(cfg.Isolation, job.IsolationNone)
	return &Backend{cfg: cfg, stop: make(chan struct{})}
}

// Probe implements backends.Backend. It plays no guest, since there is
// nothing on the host that could be missing.
func (b *Backend) Probe(ctx context.Context) (backends.Capabilities, error) {
	if b.cfg.ProbeError != nil {
		return backends.Capabilities{}, fmt.Errorf("%w: %w", backends.ErrUnavailable, b.cfg.ProbeError)
	}
	held := map[job.LimitName]string{}
	for _, limit := range b.cfg.Limits {
		held[limit] = "script"
	}
	return backends.Capabilities{
		Offer: job.Offer{
			Backend: Name, Version: "1", Isolation: b.cfg.Isolation,
			OS: runtime.GOOS, Arch: runtime.GOARCH, Limits: b.cfg.Limits,
		},
		Isolated: job.Isolated{Level: b.cfg.Isolation, Version: "1", Limits: held},
	}, ctx.Err()
}

// Run implements backends.Backend.
func (b *Backend) Run(ctx context.Context, task backends.Task) (backends.Outcome, error) {
	for _, limit := range task.Enforce {
		if !slices.Contains(b.cfg.Limits, limit) {
			return backends.Outcome{}, fmt.Errorf("%s: %w", limit, backends.ErrUnenforceable)
		}
	}
	if err := task.CheckPlain(); err != nil {
		return backends.Outcome{}, err
	}
	if !b.enter() {
		return backends.Outcome{}, backends.ErrClosed
	}
	defer b.running.Done()

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	closing := make(chan struct{})
	defer close(closing)
	go func() {
		select {
		case <-b.stop:
			cancel(backends.ErrClosed)
		case <-closing:
		}
	}()
	return b.play(ctx, cancel, task)
}

// play runs the script and the conversation beside each other, and waits for
// both.
func (b *Backend) play(ctx context.Context, cancel context.CancelCauseFunc, task backends.Task) (backends.Outcome, error) {
	began := time.Now()
	ours, theirs := net.Pipe()
	unhook := context.AfterFunc(ctx, func() { _ = ours.Close() })
	defer unhook()

	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := task.Serve(ctx, theirs); err != nil {
			cancel(fmt.Errorf("serve: %w", err))
		}
	}()

	outcome, err := b.cfg.Script(ctx, &Guest{Task: task, channel: ours})
	killed := ctx.Err() != nil
	_ = ours.Close()
	<-served
	_ = theirs.Close()

	if err != nil {
		return backends.Outcome{}, err
	}
	if killed {
		outcome = backends.Outcome{Cause: backends.Killed, Signal: "SIGKILL", CPU: outcome.CPU, PeakMemory: outcome.PeakMemory}
	}
	outcome.Cause = cmp.Or(outcome.Cause, backends.Exited)
	outcome.PeakProcesses = max(outcome.PeakProcesses, 1)
	outcome.CPU = cmp.Or(outcome.CPU, min(time.Since(began), time.Millisecond))
	return outcome, nil
}

func (b *Backend) enter() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.running.Add(1)
	}
	return !b.closed
}

// Close implements backends.Backend.
func (b *Backend) Close() error {
	b.mu.Lock()
	if !b.closed {
		b.closed = true
		close(b.stop)
	}
	b.mu.Unlock()
	b.running.Wait()
	return nil
}

// ErrScripted is what Run's error wraps when a directive asks for a failure.
var ErrScripted = errors.New("scripted failure")
