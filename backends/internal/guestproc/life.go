package guestproc

import (
	"context"
	"fmt"

	"airlock/backends"
)

// Life is what the methods of a backend have in common: who may enter, and
// what was found out about the host. The zero value is ready for use.
type Life[T any] struct {
	Gate     Gate
	Prepared Prepared[T]
}

// Probe prepares the backend if need be and asks probe what it can do. What
// was prepared is forgotten when that fails. The error wraps
// backends.ErrUnavailable.
func (l *Life[T]) Probe(ctx context.Context, prepare func(context.Context) (*T, error), probe func(context.Context, *T) (backends.Capabilities, error)) (backends.Capabilities, error) {
	ctx, leave, err := l.Gate.Enter(ctx)
	if err != nil {
		return backends.Capabilities{}, fmt.Errorf("%w: %w", backends.ErrUnavailable, err)
	}
	defer leave()
	t, err := prepare(ctx)
	if err == nil {
		var can backends.Capabilities
		if can, err = probe(ctx, t); err == nil {
			return can, nil
		}
		l.Prepared.Forget(t)
	}
	return backends.Capabilities{}, fmt.Errorf("%w: %w", backends.ErrUnavailable, err)
}

// Run prepares the backend if need be and runs a guest, unless it is closed.
func (l *Life[T]) Run(ctx context.Context, prepare func(context.Context) (*T, error), run func(context.Context, *T) (backends.Outcome, error)) (backends.Outcome, error) {
	ctx, leave, err := l.Gate.Enter(ctx)
	if err != nil {
		return backends.Outcome{}, err
	}
	defer leave()
	// A job that is cancelled early must not keep the next from being run.
	t, err := prepare(context.WithoutCancel(ctx))
	if err != nil {
		return backends.Outcome{}, err
	}
	// A guest that were started now would find its channel closed, and could
	// end by itself for that before it is killed.
	if ctx.Err() != nil {
		return backends.Outcome{Cause: backends.Killed, Signal: "SIGKILL"}, nil
	}
	return run(ctx, t)
}
