//go:build !unix

package wasm

import (
	"context"
	"fmt"

	"airlock/backends"
)

// ready is what a prepared backend has; none is prepared here yet.
type ready struct{}

// Main is the first thing that a program's main does.
func Main() Helper { return Helper{} }

// Probe implements backends.Backend.
func (b *Backend) Probe(context.Context) (backends.Capabilities, error) {
	return backends.Capabilities{}, b.unavailable()
}

// Run implements backends.Backend.
func (b *Backend) Run(ctx context.Context, _ backends.Task) (backends.Outcome, error) {
	_, leave, err := b.life.Gate.Enter(ctx)
	if err != nil {
		return backends.Outcome{}, err
	}
	leave()
	return backends.Outcome{}, b.unavailable()
}

// Parks implements backends.Parker.
func (b *Backend) Parks(task backends.Task) backends.Task { return task }

// Close implements backends.Backend.
func (b *Backend) Close() error {
	b.life.Gate.Close()
	return nil
}

func (b *Backend) unavailable() error {
	return fmt.Errorf("%w: a guest has its channel by inheritance, which this system does not have yet; use another backend here", backends.ErrUnavailable)
}
