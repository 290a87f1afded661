// Package cgroup bounds the guests of one worker with Linux control groups,
// version 2 or version 1, and reports what the kernel counted.
//
// A guest is born inside its group, so that no instruction of it runs
// unlimited: on version 2 the kernel clones it into the group, on version 1
// the thread that starts it stands in the group while it does.
//
// Groups are made below the worker's own group. Their names hold the worker's
// pid namespace, pid and start time, so that a later worker can remove what a
// dead one left and never touches a living one's.
package cgroup

import (
	"errors"
	"time"
)

// ErrUnusable is wrapped by Open's error, which says what is missing and how
// to mend it.
var ErrUnusable = errors.New("control groups cannot be used")

// Controller is one of the kernel's resource controllers.
type Controller string

// The controllers that guests are bounded with. Accounting is the processor
// time counter: cpuacct on version 1, part of every group on version 2.
const (
	Memory     Controller = "memory"
	Processes  Controller = "pids"
	CPU        Controller = "cpu"
	Accounting Controller = "cpuacct"
)

// Limits bound one group. A zero field, or one whose controller the host
// lacks, is not set.
type Limits struct {
	// Memory is in bytes, without any swap on top.
	Memory int64
	// Processes counts processes and threads.
	Processes int
	// Cores is the rate of processor time, 1 being one processor's worth.
	Cores float64
}

// Usage is what the kernel counted for a group.
type Usage struct {
	CPU        time.Duration
	PeakMemory int64
	// PeakProcesses is zero where the kernel does not record it. On version 1
	// the thread that started the first process was there beside it.
	PeakProcesses int
	// OOMKills counts processes that were killed for memory, ProcessesFull
	// the refused attempts to start one more.
	OOMKills      int
	ProcessesFull int
}
