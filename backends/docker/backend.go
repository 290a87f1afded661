package docker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"airlock/backends"
)

// Probe implements backends.Backend.
func (b *Backend) Probe(ctx context.Context) (backends.Capabilities, error) {
	return b.life.Probe(ctx, b.prepare, func(ctx context.Context, r *ready) (backends.Capabilities, error) {
		f, err := r.ask(ctx)
		if err != nil {
			return backends.Capabilities{}, err
		}
		if err := b.tryRuntime(ctx, r, f); err != nil {
			return backends.Capabilities{}, err
		}
		if err := r.findNetwork(ctx, b, f); err != nil {
			return backends.Capabilities{}, err
		}
		r.facts.Store(f)
		return b.capabilities(f), nil
	})
}

// tryRuntime runs guests in all images, unless it is known that the runtime of
// this variant starts none.
func (b *Backend) tryRuntime(ctx context.Context, r *ready, f *facts) error {
	if b.config.Runtime == "" {
		return r.tryImages(ctx, b, f)
	}
	if err := b.refused.of(f, time.Now()); err != nil {
		return err
	}
	err := r.tryImages(ctx, b, f)
	if ctx.Err() == nil {
		b.refused.note(f, time.Now(), err)
	}
	return err
}

// Run implements backends.Backend.
func (b *Backend) Run(ctx context.Context, task backends.Task) (backends.Outcome, error) {
	return b.life.Run(ctx, b.prepare, func(ctx context.Context, r *ready) (backends.Outcome, error) {
		if err := checkEnforce(task.Enforce); err != nil {
			return backends.Outcome{}, err
		}
		g, err := b.guest(ctx, r, task)
		if err != nil {
			return backends.Outcome{}, err
		}
		return g.run(ctx)
	})
}

// guest is one that is yet to run, with what the task asks for.
func (b *Backend) guest(ctx context.Context, r *ready, task backends.Task) (*guest, error) {
	f, err := r.known(context.WithoutCancel(ctx))
	if err != nil {
		return nil, err
	}
	g := &guest{ready: r, backend: b, facts: f, task: task}
	if g.image, err = f.images.find(task.Image); err != nil {
		return nil, err
	}
	if task.Network {
		if f.network == nil {
			return nil, fmt.Errorf("%w: network: this backend gives guests none", backends.ErrUnenforceable)
		}
		g.network = f.network.name
	}
	return g, nil
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
