package docker

import (
	"context"
	"errors"
	"fmt"

	"airlock/backends"
	"airlock/backends/internal/guestproc"
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
		var about greeting
		err = guestproc.Probe(ctx, func(ctx context.Context, task backends.Task) (backends.Outcome, error) {
			g := &guest{ready: r, task: task}
			defer func() { about = g.greeting }()
			return g.run(ctx)
		})
		if err == nil {
			return r.capabilities(about), nil
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
	if err := checkEnforce(task.Enforce); err != nil {
		return backends.Outcome{}, err
	}
	return (&guest{ready: r, task: task}).run(ctx)
}

// Close implements backends.Backend.
func (b *Backend) Close() error {
	b.gate.Close()
	b.closeOnce.Do(func() { close(b.closing) })
	b.sweeper.Wait()
	var errs []error
	for _, r := range b.prepared.Drain() {
		errs = append(errs, r.engine.close())
	}
	return errors.Join(errs...)
}

// prepare finds out once what the engine has.
func (b *Backend) prepare(ctx context.Context) (*ready, error) {
	r, err := b.prepared.Get(func() (*ready, error) { return prepare(ctx, b.config, b.shared) })
	if err != nil {
		return nil, err
	}
	b.sweepOnce.Do(func() { b.sweeper.Go(func() { b.sweep(r) }) })
	return r, nil
}
