//go:build unix

package local

import (
	"context"
	"errors"
	"os"
	"runtime"

	"airlock/backends"
	"airlock/backends/internal/guestproc"
	"airlock/backends/internal/interpreter"
	"airlock/job"
)

// ready is what a prepared backend has. It does not change.
type ready struct {
	python interpreter.Interpreter
	stage  string
	fence  guestproc.Fence
}

// Probe implements backends.Backend.
func (b *Backend) Probe(ctx context.Context) (backends.Capabilities, error) {
	return b.life.Probe(ctx, b.prepare, func(ctx context.Context, r *ready) (backends.Capabilities, error) {
		return r.capabilities(), guestproc.Probe(ctx, r.run)
	})
}

// Run implements backends.Backend.
func (b *Backend) Run(ctx context.Context, task backends.Task) (backends.Outcome, error) {
	return b.life.Run(ctx, b.prepare, func(ctx context.Context, r *ready) (backends.Outcome, error) {
		if err := r.fence.Check(task); err != nil {
			return backends.Outcome{}, err
		}
		return r.run(ctx, task)
	})
}

// Close implements backends.Backend.
func (b *Backend) Close() error {
	b.life.Gate.Close()
	var errs []error
	for _, r := range b.life.Prepared.Drain() {
		errs = append(errs, os.RemoveAll(r.stage))
	}
	return errors.Join(errs...)
}

// errNotAllowed is the reason for which nothing runs by default.
var errNotAllowed = errors.New("guests would run without any isolation, as the worker's own user, " +
	"and could read and change all that it can: start the worker with --allow-no-isolation if that is what you want")

// prepare finds out once what the host has.
func (b *Backend) prepare(ctx context.Context) (*ready, error) {
	if !b.config.AllowNoIsolation {
		return nil, errNotAllowed
	}
	return b.life.Prepared.Get(func() (*ready, error) {
		b.config.Log.Warn().Msg("local backend: guests run WITHOUT ISOLATION, as this user")
		python, err := interpreter.Find(ctx, b.config.Python, nil)
		if err != nil {
			return nil, err
		}
		r := &ready{python: python, fence: guestproc.NewFence(0, b.config.Cores)}
		r.fence.NotHeld = map[job.LimitName]string{job.LimitDisk: "guests write to the host's own file systems"}
		if r.fence.Err != nil {
			b.config.Log.Warn().Err(r.fence.Err).Msg("guests' memory, processes and processor time cannot be limited")
		}
		r.stage, err = interpreter.Stage(ctx, python)
		return r, err
	})
}

func (r *ready) capabilities() backends.Capabilities {
	version := "Python " + r.python.Version
	caps := backends.Capabilities{
		Offer: job.Offer{
			Backend: Name, Version: version, Isolation: job.IsolationNone,
			OS: runtime.GOOS, Arch: runtime.GOARCH, Python: r.python.Version,
		},
		Isolated: job.Isolated{
			Level: job.IsolationNone, Version: version, Kernel: guestproc.Kernel(), Python: r.python.Version,
		},
	}
	r.fence.Describe(&caps)
	return caps
}
