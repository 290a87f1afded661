//go:build !linux

package forkserver

import (
	"context"
	"fmt"

	"airlock/backends"
)

// Backend is not available on this system.
type Backend struct{}

var _ backends.Backend = (*Backend)(nil)

// New makes a backend.
func New(Config) *Backend { return &Backend{} }

// Probe implements backends.Backend.
func (*Backend) Probe(context.Context) (backends.Capabilities, error) {
	return backends.Capabilities{}, fmt.Errorf("%w: %s needs Linux namespaces", backends.ErrUnavailable, Name)
}

// Run implements backends.Backend.
func (*Backend) Run(context.Context, backends.Task) (backends.Outcome, error) {
	return backends.Outcome{}, fmt.Errorf("%w: %s needs Linux namespaces", backends.ErrUnavailable, Name)
}

// Close implements backends.Backend.
func (*Backend) Close() error { return nil }
