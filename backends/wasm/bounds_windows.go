package wasm

import (
	"time"

	"airlock/backends/internal/guestproc"
	"airlock/job"
)

// ownMemory is what a guest's process may commit beside the guest's memory and
// its files. Unlike on Linux that counts what is never touched.
const ownMemory = 320 << 20

// newFence says what holds the limits: the module's runtime, and a second time
// the job object of the process, without which none is started.
func newFence(config Config) guestproc.Fence {
	f := guestproc.NewFence(0, config.Cores)
	f.Also = held()
	f.Also[job.LimitMemory] += "; job object's memory of its process"
	f.Also[job.LimitProcesses] += "; job object of one process"
	f.Also[job.LimitCPU] = "job object's accounting, which the worker watches"
	return f
}

// bounds are those of the process's job object.
func (g *instance) bounds() guestproc.Bounds {
	l := g.task.Limits
	return guestproc.Bounds{Memory: uint64(l.Memory) + 2*uint64(l.Disk) + ownMemory, Unheld: g.config.unheld}
}

// imageBounds are those of the process that makes the image, which compiles.
func imageBounds(config Config) guestproc.Bounds {
	return guestproc.Bounds{Memory: 2 << 30, Unheld: config.unheld}
}

// lowerCPU has nothing to do here: the accounting is watched.
func lowerCPU(int, guestproc.Bounds, *guestproc.User) error { return nil }

// parkedCPU is the bound of processor time of a guest whose job is not known.
func parkedCPU(job.Duration) job.Duration { return job.Duration(24 * time.Hour) }
