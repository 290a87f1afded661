package bubblewrap

import (
	"context"
	"errors"
	"fmt"
	"os"

	"airlock/backends"
)

// Probe implements backends.Backend.
func (b *Backend) Probe(ctx context.Context) (backends.Capabilities, error) {
	ctx, leave, err := b.gate.Enter(ctx)
	if err != nil {
		return backends.Capabilities{}, fmt.Errorf("%w: %w", backends.ErrUnavailable, err)
	}
	defer leave()
	r, err := b.prepare(ctx)
	if err == nil {
		if err = r.probe(ctx); err == nil {
			return r.capabilities(), nil
		}
		b.prepared.Forget(r)
	}
	return backends.Capabilities{}, fmt.Errorf("%w: %w", backends.ErrUnavailable, err)
}

// Run implements backends.Backend.
func (b *Backend) Run(ctx context.Context, task backends.Task) (backends.Outcome, error) {
	ctx, leave, err := b.gate.Enter(ctx)
	if err != nil {
		return backends.Outcome{}, err
	}
	defer leave()
	// A job that is cancelled early must not keep the next from being run.
	r, err := b.prepare(context.WithoutCancel(ctx))
	if err != nil {
		return backends.Outcome{}, err
	}
	if err := r.fence.Check(task.Enforce); err != nil {
		return backends.Outcome{}, err
	}
	return r.run(ctx, task, nil)
}

// Close implements backends.Backend.
func (b *Backend) Close() error {
	b.gate.Close()
	var errs []error
	for _, r := range b.prepared.Drain() {
		errs = append(errs, os.RemoveAll(r.stage))
	}
	return errors.Join(errs...)
}

// prepare finds out once what the host has.
func (b *Backend) prepare(ctx context.Context) (*ready, error) {
	return b.prepared.Get(func() (*ready, error) { return prepare(ctx, b.config) })
}
