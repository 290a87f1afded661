package docker

import (
	"context"
	"errors"

	"airlock/backends"
	"airlock/backends/internal/guestproc"
)

// Probe implements backends.Backend.
func (b *Backend) Probe(ctx context.Context) (backends.Capabilities, error) {
	return b.life.Probe(ctx, b.prepare, func(ctx context.Context, r *ready) (backends.Capabilities, error) {
		var about greeting
		err := guestproc.Probe(ctx, func(ctx context.Context, task backends.Task) (backends.Outcome, error) {
			g := &guest{ready: r, task: task}
			defer func() { about = g.greeting }()
			return g.run(ctx)
		})
		return r.capabilities(about), err
	})
}

// Run implements backends.Backend.
func (b *Backend) Run(ctx context.Context, task backends.Task) (backends.Outcome, error) {
	return b.life.Run(ctx, b.prepare, func(ctx context.Context, r *ready) (backends.Outcome, error) {
		if err := checkEnforce(task.Enforce); err != nil {
			return backends.Outcome{}, err
		}
		return (&guest{ready: r, task: task}).run(ctx)
	})
}

// Close implements backends.Backend.
func (b *Backend) Close() error {
	b.life.Gate.Close()
	b.shared.clearer.wait()
	b.closeOnce.Do(func() { close(b.closing) })
	b.sweeper.Wait()
	var errs []error
	for _, r := range b.life.Prepared.Drain() {
		errs = append(errs, r.engine.close())
	}
	return errors.Join(errs...)
}

// prepare finds out once what the engine has.
func (b *Backend) prepare(ctx context.Context) (*ready, error) {
	r, err := b.life.Prepared.Get(func() (*ready, error) { return prepare(ctx, b.config, b.shared) })
	if err != nil {
		return nil, err
	}
	b.sweepOnce.Do(func() { b.sweeper.Go(func() { b.sweep(r) }) })
	return r, nil
}
