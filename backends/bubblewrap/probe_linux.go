package bubblewrap

import (
	"context"
	"errors"

	"airlock/backends"
	"airlock/backends/internal/guestproc"
)

// probe runs a guest with the smallest program and looks at it from outside.
func (r *ready) probe(ctx context.Context) error {
	posture := errors.New("the guest said nothing")
	err := guestproc.Probe(ctx, func(ctx context.Context, task backends.Task) (backends.Outcome, error) {
		return r.run(ctx, task, func(pid int) { posture = guestproc.CheckPosture(pid, nil) })
	})
	if err != nil {
		return err
	}
	return posture
}
