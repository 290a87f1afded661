//go:build unix && !linux

package wasm

import (
	"syscall"

	"airlock/backends/internal/cgroup"
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

func (g *instance) enclose() error { return nil }

func (g *instance) disclose() error { return nil }

func restart(*cgroup.Group) error { return nil }

// lowerCPU has nothing to do here: parkedCPU sees to it.
func lowerCPU(int, guestproc.Bounds, *syscall.Credential) error { return nil }

// watch watches nothing here.
type watch struct{}

func (*watch) begin(*instance) {}
func (*watch) end()            {}
func (*watch) tripped() bool   { return false }

func namespaces() syscall.SysProcAttr { return syscall.SysProcAttr{} }

func checkConfined(int, bool) error { return nil }

// users are none here.
type users struct{}

func openUsers(Config) (*users, error) { return nil, nil }

func (*users) take() (*syscall.Credential, func(), error) { return nil, func() {}, nil }

// parkedCPU keeps a limit that cannot be lowered later.
func parkedCPU(limit job.Duration) job.Duration { return limit }
