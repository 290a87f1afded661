package guestproc

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// List is the bounds as resource, soft and hard limit.
func (b Bounds) List() [][3]uint64 {
	list := [][3]uint64{
		{unix.RLIMIT_CORE, 0, 0},
		{unix.RLIMIT_CPU, b.CPU, b.CPU + 1},
		{unix.RLIMIT_FSIZE, b.File, b.File},
		{unix.RLIMIT_NOFILE, openFiles, openFiles},
		{unix.RLIMIT_STACK, stackSize, stackSize},
		{unix.RLIMIT_MEMLOCK, 0, 0},
		{unix.RLIMIT_MSGQUEUE, 0, 0},
		{unix.RLIMIT_SIGPENDING, pendingSignals, pendingSignals},
		{unix.RLIMIT_RTPRIO, 0, 0},
		{unix.RLIMIT_NICE, 0, 0},
	}
	if b.Memory > 0 {
		list = append(list, [3]uint64{unix.RLIMIT_AS, b.Memory, b.Memory})
	}
	return list
}

// apply sets the bounds of a process that has not begun to act on anything.
func (b Bounds) apply(pid int) error {
	for _, bound := range b.List() {
		if err := lower(pid, bound); err != nil {
			return err
		}
	}
	return nil
}

// lower sets a bound, or keeps an operator's own that is lower already: raising
// it needs a privilege.
func lower(pid int, bound [3]uint64) error {
	resource, limit := int(bound[0]), &unix.Rlimit{Cur: bound[1], Max: bound[2]}
	var old unix.Rlimit
	if err := unix.Prlimit(pid, resource, nil, &old); err == nil {
		limit.Max = min(limit.Max, old.Max)
		limit.Cur = min(limit.Cur, limit.Max)
	}
	if err := unix.Prlimit(pid, resource, limit, nil); err != nil {
		return fmt.Errorf("set resource limit %d: %w", resource, err)
	}
	return nil
}

// LowerCPU sets the bound of processor time of a guest that waits for its job.
// user is the guest's on the host, or nil if that is our own.
func (b Bounds) LowerCPU(pid int, user *syscall.Credential) error {
	bound := [3]uint64{unix.RLIMIT_CPU, b.CPU, b.CPU + 1}
	err := lower(pid, bound)
	if err == nil || user == nil {
		return err
	}
	// Root without CAP_SYS_RESOURCE, as in a container.
	done := make(chan error, 1)
	offMainThread(func() { done <- asUser(user, func() error { return lower(pid, bound) }) })
	return <-done
}
