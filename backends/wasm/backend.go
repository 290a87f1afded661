package wasm

import (
	"context"
	"errors"
	"os"

	"airlock/backends"
	"airlock/job"
)

// Probe implements backends.Backend.
func (b *Backend) Probe(ctx context.Context) (backends.Capabilities, error) {
	return b.life.Probe(ctx, b.prepare, func(ctx context.Context, r *ready) (backends.Capabilities, error) {
		return r.capabilities(), r.probe(ctx)
	})
}

// Run implements backends.Backend.
func (b *Backend) Run(ctx context.Context, task backends.Task) (backends.Outcome, error) {
	return b.life.Run(ctx, b.prepare, func(ctx context.Context, r *ready) (backends.Outcome, error) {
		if err := r.check(task); err != nil {
			return backends.Outcome{}, err
		}
		return r.run(ctx, task)
	})
}

// Parks implements backends.Parker: what is built into a guest is the size of
// its memory and of its file systems.
func (b *Backend) Parks(task backends.Task) backends.Task {
	limits := job.DefaultLimits()
	limits.Memory, limits.Disk = task.Limits.Memory, task.Limits.Disk
	limits.CPU = parkedCPU(task.Limits.CPU) // lowered when the job comes
	return backends.Task{Limits: limits}
}

// Close implements backends.Backend.
func (b *Backend) Close() error {
	b.life.Gate.Close()
	var errs []error
	for _, r := range b.life.Prepared.Drain() {
		errs = append(errs, r.close())
	}
	return errors.Join(errs...)
}

// prepare finds out once what the host has, and again when somebody has removed
// the code that it compiled.
func (b *Backend) prepare(ctx context.Context) (*ready, error) {
	find := func() (*ready, error) { return prepare(ctx, b.config) }
	r, err := b.life.Prepared.Get(find)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(r.codeFile()); err == nil {
		return r, nil
	}
	b.config.Log.Warn().Str("file", r.codeFile()).Msg("compiled code is gone, and is made anew")
	b.life.Prepared.Forget(r)
	return b.life.Prepared.Get(find)
}
