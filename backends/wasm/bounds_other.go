//go:build unix && !linux

package wasm

import (
	"airlock/backends/internal/guestproc"
	"airlock/job"
)

// newFence says what holds the limits: the module's runtime. RLIMIT_CPU does
// not: macOS sends SIGXCPU and never kills, and Go's handler of that signal,
// which a guest's process has, ignores it.
func newFence(config Config) guestproc.Fence {
	f := guestproc.NewFence(0, config.Cores)
	f.Also = held()
	f.NotHeld = map[job.LimitName]string{job.LimitCPU: "the guest's process ignores SIGXCPU, and the kernel of this system does nothing else"}
	return f
}

// bounds are the kernel's on the guest's process itself.
func (g *instance) bounds() guestproc.Bounds { return guestproc.NewBounds(g.task.Limits, true) }

// imageBounds are those of the process that makes the image: none.
func imageBounds(Config) guestproc.Bounds { return guestproc.Bounds{} }

// lowerCPU has nothing to do here: parkedCPU sees to it.
func lowerCPU(int, guestproc.Bounds, *guestproc.User) error { return nil }

// parkedCPU keeps a limit that cannot be lowered later.
func parkedCPU(limit job.Duration) job.Duration { return limit }
