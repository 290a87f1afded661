//go:build !unix

package local

import (
	"context"
	"fmt"

	"airlock/backends"
)

// ready is what a prepared backend has; this system cannot prepare one.
type ready struct{}

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

// Close implements backends.Backend.
func (b *Backend) Close() error {
	b.life.Gate.Close()
	return nil
}

func (b *Backend) unavailable() error {
	return fmt.Errorf("%w: a guest's channel is an inherited socket, and this system has none that Python can use; "+
		"use another backend here", backends.ErrUnavailable)
}
