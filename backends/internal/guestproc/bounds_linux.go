package guestproc

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// apply sets the bounds of a process that has not begun to act on anything.
func (b Bounds) apply(pid int) error {
	type bound struct {
		resource   int
		soft, hard uint64
	}
	bounds := []bound{
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
		bounds = append(bounds, bound{unix.RLIMIT_AS, b.Memory, b.Memory})
	}
	for _, r := range bounds {
		limit := &unix.Rlimit{Cur: r.soft, Max: r.hard}
		var old unix.Rlimit
		// An operator's own limit may be lower; raising it needs a privilege.
		if err := unix.Prlimit(pid, r.resource, nil, &old); err == nil {
			limit.Max = min(limit.Max, old.Max)
			limit.Cur = min(limit.Cur, limit.Max)
		}
		if err := unix.Prlimit(pid, r.resource, limit, nil); err != nil {
			return fmt.Errorf("set resource limit %d: %w", r.resource, err)
		}
	}
	return nil
}
