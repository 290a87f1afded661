package guestproc

import (
	"time"

	"airlock/job"
)

// Bounds are the kernel's limits on each single process of a guest, hard ones,
// which a guest can lower only. They are a second fence: the control group
// bounds the whole tree.
type Bounds struct {
	// CPU is in whole seconds; one more and the kernel kills. It lies beyond
	// the job's limit, since the kernel estimates a single process's time by
	// its ticks and may be early, while the group's is exact.
	CPU uint64
	// File is the largest size of one file.
	File uint64
	// Memory is the address space, or zero for no bound; on Windows it is what
	// the process may commit, and is always given.
	Memory uint64
	// Unheld lets a test run where a system like Windows holds no bounds. It
	// has no meaning elsewhere, and nothing but tests sets it.
	Unheld bool
}

const (
	// openFiles is how many descriptors a process may have.
	openFiles = 256
	stackSize = 8 << 20
	// pendingSignals counts timers too.
	pendingSignals = 256
	// fileSlack keeps the size of a file from being the limit when a file
	// system is full, so that a program sees the one that a result names.
	fileSlack = 1 << 20
	// mapSlack is what an interpreter maps and never touches.
	mapSlack = 512 << 20
)

// NewBounds are those that go with a job's limits. Where no control group
// holds the memory, the address space is bounded instead; that is a help
// against accidents and no limit to be advertised.
func NewBounds(l job.Limits, group bool) Bounds {
	b := Bounds{
		CPU:  uint64((l.CPU.Std()+time.Second-1)/time.Second) + 1,
		File: uint64(l.Disk) + fileSlack,
	}
	if !group {
		b.Memory = uint64(l.Memory) + mapSlack
	}
	return b
}
