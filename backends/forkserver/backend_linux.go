package forkserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"airlock/backends"
	"airlock/backends/internal/guestproc"
	"airlock/job"
)

// Backend runs guests as forks.
type Backend struct {
	config Config
	life   guestproc.Life[ready]
}

var (
	_ backends.Backend = (*Backend)(nil)
	_ backends.Parker  = (*Backend)(nil)
)

// New makes a backend. It touches nothing of the host; Probe does.
func New(config Config) *Backend { return &Backend{config: config.withDefaults()} }

// Probe implements backends.Backend.
func (b *Backend) Probe(ctx context.Context) (backends.Capabilities, error) {
	return b.life.Probe(ctx, b.prepare, func(ctx context.Context, r *ready) (backends.Capabilities, error) {
		if err := r.probe(ctx); err != nil {
			return backends.Capabilities{}, err
		}
		return r.capabilities(r.offered(ctx)), nil
	})
}

// Run implements backends.Backend.
func (b *Backend) Run(ctx context.Context, task backends.Task) (backends.Outcome, error) {
	return b.life.Run(ctx, b.prepare, func(ctx context.Context, r *ready) (backends.Outcome, error) {
		if err := r.fence.Check(task); err != nil {
			return backends.Outcome{}, err
		}
		if _, known := r.config.Templates[task.Template]; task.Template != "" && !known {
			return backends.Outcome{}, fmt.Errorf("%w: no template is called %q here", backends.ErrUnenforceable, job.Printable(task.Template, 40))
		}
		return r.run(ctx, task)
	})
}

// maxCPU is the bound of processor time of a guest whose job is not known.
const maxCPU = job.Duration(24 * time.Hour)

// Parks implements backends.Parker: what is built into a guest is the size of
// its file systems, its template and whose slot it is in.
func (b *Backend) Parks(task backends.Task) backends.Task {
	limits := job.DefaultLimits()
	limits.Disk = task.Limits.Disk
	limits.CPU = maxCPU // lowered when the job comes
	return backends.Task{Tenant: task.Tenant, Template: task.Template, Limits: limits}
}

// Close implements backends.Backend.
func (b *Backend) Close() error {
	b.life.Gate.Close()
	var errs []error
	for _, r := range b.life.Prepared.Drain() {
		errs = append(errs, r.slots.close(), os.RemoveAll(r.stage))
	}
	return errors.Join(errs...)
}

// prepare finds out once what the host has.
func (b *Backend) prepare(ctx context.Context) (*ready, error) {
	return b.life.Prepared.Get(func() (*ready, error) { return prepare(ctx, b.config) })
}
