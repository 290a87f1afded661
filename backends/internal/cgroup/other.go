//go:build !linux

package cgroup

import (
	"context"
	"fmt"
	"syscall"
	"time"
)

// Host is the place where a worker makes its groups; only Linux has one.
type Host struct{}

// Open always fails: only Linux has control groups.
func Open() (*Host, error) {
	return nil, fmt.Errorf("%w: only Linux has them", ErrUnusable)
}

// String is the version.
func (*Host) String() string { return "" }

// Has reports whether the host has the controller.
func (*Host) Has(Controller) bool { return false }

// New makes a group.
func (*Host) New(Limits) (*Group, error) { return nil, ErrUnusable }

// Group is the control group of one guest; without Open there is none.
type Group struct{}

// Starter starts a process with the attributes it is given.
type Starter func(attr *syscall.SysProcAttr) error

// Enter calls start.
func (*Group) Enter(attr *syscall.SysProcAttr, start Starter) error { return start(attr) }

// Usage is what the kernel counted so far.
func (*Group) Usage() (Usage, error) { return Usage{}, ErrUnusable }

// WaitCPU waits for a processor time limit.
func (*Group) WaitCPU(ctx context.Context, _ time.Duration) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// Kill kills everything in the group.
func (*Group) Kill(context.Context) error { return nil }

// Remove removes the group.
func (*Group) Remove() error { return nil }

// Watch always fails: only Linux has control groups.
func Watch(int, string, float64) (*Group, error) {
	return nil, fmt.Errorf("%w: only Linux has them", ErrUnusable)
}
