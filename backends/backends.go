// Package backends is the contract between the worker and the ways to isolate
// a guest. Each way is a package below this one; package all lists them, and
// package backendtest holds the stories that every one of them must pass.
//
// A backend translates a Task into its technology and reports what it saw of
// the guest. Everything common to all is the worker's: the wall clock, the
// bounds of output, the choice of a backend, logs. A backend knows nothing of
// tools: it hands the guest's byte channel to Task.Serve.
package backends

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"airlock/job"
)

// Backend is one way to isolate a guest. Its methods may be called from
// several goroutines at once.
type Backend interface {
	// Probe really runs a trivial guest and says what this backend can do on
	// this host. It may be called again at any time. The error wraps
	// ErrUnavailable and says what is missing and how to mend it.
	Probe(ctx context.Context) (Capabilities, error)

	// Run runs one guest to its end and blocks until nothing of it runs and
	// its outcome is final. Nothing of it is left then: no process, container,
	// cgroup, mount, file or descriptor. A backend whose technology is slow to
	// clear away what is dead, such as an exited container, may do that behind
	// Run's back if it bounds how many wait and Close waits for all of them.
	//
	// The guest ends by itself, by a limit the backend holds, because
	// Task.Serve returned an error, or because ctx ended; the last two kill
	// it at once with everything it started. How the guest ended is an
	// Outcome, also when ctx ended it. An error means that the outcome is
	// unknown, and then it is our failure, never the guest's. It wraps
	// ErrUnenforceable when Task asks for a limit that the backend cannot
	// hold, which is found before the guest starts, and ErrClosed after
	// Close.
	Run(ctx context.Context, task Task) (Outcome, error)

	// Close frees what the backend holds and kills the guests that are still
	// running. It may be called twice.
	Close() error
}

// CheckPlain is what a backend without images and networks refuses tasks by:
// the lanes keep such tasks away from it, and a wall is not to depend on that.
func (t Task) CheckPlain() error {
	switch {
	case t.Image != "":
		return fmt.Errorf("%w: image: this backend has none", ErrUnenforceable)
	case t.Network:
		return fmt.Errorf("%w: network: this backend gives guests none", ErrUnenforceable)
	}
	return nil
}

// The errors that callers branch on.
var (
	// ErrUnavailable is wrapped by Probe's error.
	ErrUnavailable = errors.New("backend is not available")
	// ErrUnenforceable is wrapped by Run's error for a limit it cannot hold.
	ErrUnenforceable = errors.New("limit cannot be enforced")
	// ErrClosed is returned by Run after Close.
	ErrClosed = errors.New("backend is closed")
)

// Capabilities are the facts a probe found.
type Capabilities struct {
	// Offer is what lanes are matched against. Its Limits are those that the
	// backend enforces on the whole process tree, from outside the guest.
	job.Offer
	// Isolated are the facts that go into each result.
	Isolated job.Isolated
}

// Task is one guest to run.
type Task struct {
	// Job and Attempt name the guest in logs, cgroups and labels. Nothing
	// else of the job reaches a backend; code and inputs travel in frames.
	Job     job.ID
	Attempt int
	// Limits have no zero field. A backend enforces cpu, memory, processes
	// and disk; the others are the worker's and the broker's.
	Limits job.Limits
	// Enforce lists the limits without which the guest must not start.
	Enforce []job.LimitName
	// Tenant is whose job it is. Backends use it only to keep tenants' guests
	// apart, never as a path or a key for anything else. It is "" for a guest
	// that is not for any tenant in particular, such as a probe's.
	Tenant string
	// Template is the warm interpreter that the guest is to be forked from, by
	// a name that the offer has a label for; "" means the backend's default,
	// and all that a backend without templates is given.
	Template string
	// Image is one that the offer names; "" means the backend's default.
	Image string
	// Network lets the guest out into the network that the operator chose.
	// Only a backend whose offer says so is given such a task.
	Network bool
	// Stdin is all the guest can read from its standard input.
	Stdin []byte
	// Stdout and Stderr receive the guest's streams as they are written, in
	// pieces of any size. Each is used by one goroutine at a time. A write
	// never fails and never blocks for long; both are complete, up to the
	// last byte written before a kill, when Run returns.
	Stdout, Stderr io.Writer
	// Serve holds the conversation. The backend calls it exactly once, with
	// the guest's own channel, as soon as the guest may be spoken to. Serve
	// returns when the conversation is over, and in any case soon after ctx
	// ends or the channel is closed; the backend closes the channel when the
	// guest is gone. If it returns an error the guest is killed.
	Serve func(ctx context.Context, channel io.ReadWriteCloser) error
}

// Parker is implemented by a backend that says itself of which tasks a guest
// can stand ready. For others Parked takes it that image, network and the
// limits that the kernel holds must be known, and that neither tenant nor
// template matters.
type Parker interface {
	// Parks returns the task of which a guest may stand ready for t: what
	// must be known when a guest starts is as in t, everything else is at its
	// default. It is one of t's Tenant, Template, Image, Network and kernel
	// limits; the rest is not looked at. It is quick, the same for the same
	// task, and may be called from several goroutines at once.
	Parks(t Task) Task
}

// Limiter is implemented by the channel that a backend hands to Serve when
// limits may still be set on a guest that stands. Parked calls Limit once for
// each guest that gets a job, also one whose limits are the guest's already,
// before anything is said to it, and perhaps before it has greeted. The job's
// use of the guest begins there: what Outcome counts does not include what the
// guest used before. A guest that does not stand ready has its task's limits
// from its start, and Limit is not called.
type Limiter interface {
	// Limit has the guest held to the limits from here on. It returns soon,
	// also when the guest has ended. After an error the guest is ended without
	// having heard of the job, which gets a guest of its own.
	Limit(limits job.Limits) error
}

// Cause is what ended a guest, as the host saw it. The zero value is invalid.
type Cause int

// The causes.
const (
	// Exited: by itself, with Outcome.ExitCode.
	Exited Cause = iota + 1
	// Signalled: by a signal that was neither ours nor a limit's.
	Signalled
	// Killed: by us, since ctx ended or Serve failed.
	Killed
	// OutOfCPU, OutOfMemory: the kernel or our watch of its counters.
	OutOfCPU
	OutOfMemory
	// Violated: the system-call filter killed it.
	Violated
)

// String names the cause.
func (c Cause) String() string {
	return [...]string{"invalid", "exited", "signalled", "killed", "out of cpu", "out of memory", "violated"}[c]
}

// Outcome is what a backend saw of a guest. All of it comes from the host.
type Outcome struct {
	Cause    Cause
	ExitCode int
	// Signal is the name of the signal that ended the guest, such as
	// SIGSEGV; empty otherwise.
	Signal string

	// OOMKills counts the guest's processes that the kernel killed for
	// memory; ProcessesFull how often it refused to start one more. DiskFull
	// is set when a writable file system was full at the end.
	OOMKills      int
	ProcessesFull int
	DiskFull      bool

	CPU           time.Duration
	PeakMemory    job.Size
	PeakProcesses int

	// Isolated are the facts of this run, where they depend on what it asked
	// for, such as its image; nil means that they are the probe's.
	Isolated *job.Isolated
}
