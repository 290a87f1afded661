package guestproc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"airlock/backends"
	"airlock/job"
)

// probeTime bounds a probe's guest.
const probeTime = 30 * time.Second

// Probe runs a guest with the smallest program and returns an error unless it
// said hello, reported the end of its code and exited with 0.
func Probe(ctx context.Context, run func(context.Context, backends.Task) (backends.Outcome, error)) error {
	return ProbeCode(ctx, "pass", run)
}

// ProbeCode is Probe with a program of the caller's.
func ProbeCode(ctx context.Context, code string, run func(context.Context, backends.Task) (backends.Outcome, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, probeTime, errors.New("the guest did not end in time"))
	defer cancel()
	said := &Head{}
	var talked error
	outcome, err := run(ctx, backends.Task{
		Job: job.NewID(), Attempt: 1, Limits: job.DefaultLimits(), Stdout: io.Discard, Stderr: said,
		Serve: func(_ context.Context, channel io.ReadWriteCloser) error {
			talked = Converse(channel, code)
			return talked
		},
	})
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil:
		return fmt.Errorf("run guest: %w", context.Cause(ctx))
	case talked != nil:
		return fmt.Errorf("run guest: %w: %s", talked, job.Printable(said.String(), 300))
	case outcome.Cause != backends.Exited || outcome.ExitCode != 0:
		return fmt.Errorf("run guest: it %s, code %d, %s: %s", outcome.Cause, outcome.ExitCode, outcome.Signal, job.Printable(said.String(), 300))
	}
	return nil
}

// Head keeps the beginning of what is written to it. One goroutine at a time
// may use it.
type Head struct{ kept []byte }

const headSize = 1 << 10

// Write implements io.Writer.
func (h *Head) Write(p []byte) (int, error) {
	h.kept = append(h.kept, p[:min(len(p), headSize-len(h.kept))]...)
	return len(p), nil
}

// String is what was kept.
func (h *Head) String() string { return string(h.kept) }
