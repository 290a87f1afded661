package wasm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"airlock/backends/internal/cgroup"
	"airlock/backends/internal/guestproc"
	"airlock/backends/internal/hostids"
	"airlock/job"

	"golang.org/x/sys/unix"
)

// ownMemory is what a guest's process needs beside the guest's memory and its
// files: compiled code, the runtime's heap, frames on their way, the stack.
const ownMemory = 160 << 20

// threads is what a guest's process may have; they are the runtime's.
const threads = 64

// newFence says what holds the limits. With control groups they hold the whole
// process a second time.
func newFence(config Config) guestproc.Fence {
	f := guestproc.NewFence(threads, config.Cores)
	if config.noGroups {
		f.Groups, f.Err = nil, errors.New("control groups are not wanted")
	}
	f.Also = held()
	if f.Err != nil {
		config.Log.Debug().Err(f.Err).Msg("guests' processes are bounded without control groups")
		f.Also[job.LimitMemory] += "; resident size of its process"
		f.Also[job.LimitCPU] = "RLIMIT_CPU of its one process"
		return f
	}
	if f.Groups.Has(cgroup.Memory) {
		f.Also[job.LimitMemory] += fmt.Sprintf("; cgroup %s memory of its process", f.Groups)
	}
	if !f.Groups.Has(cgroup.Accounting) {
		f.Also[job.LimitCPU] = "RLIMIT_CPU of its one process"
	}
	return f
}

// most is what the guest's process may use in all.
func (g *instance) most() int64 {
	l := g.task.Limits
	return int64(l.Memory) + 2*int64(l.Disk) + cmp.Or(g.config.ownMemory, ownMemory)
}

// bounds are the kernel's on the guest's process itself.
func (g *instance) bounds() guestproc.Bounds { return guestproc.NewBounds(g.task.Limits, true) }

// imageBounds are those of the process that makes the image: none.
func imageBounds(Config) guestproc.Bounds { return guestproc.Bounds{} }

// enclose makes the guest's group.
func (g *instance) enclose() (err error) {
	if g.fence.Groups == nil {
		return nil
	}
	g.group, err = g.fence.Groups.New(cgroup.Limits{Memory: g.most(), Processes: threads, Cores: g.config.Cores})
	if err != nil {
		return err
	}
	if g.visit, err = g.group.Visit(0); err != nil {
		return errors.Join(err, g.group.Remove())
	}
	return nil
}

// disclose removes it.
func (g *instance) disclose() error {
	if g.group == nil {
		return nil
	}
	g.visit.Leave()
	return g.group.Remove()
}

func restart(visit *cgroup.Group) error {
	if visit == nil {
		return nil
	}
	return visit.Restart()
}

func lowerCPU(pid int, b guestproc.Bounds, user *guestproc.User) error {
	return b.LowerCPU(pid, user)
}

// watch ends a process that has become too large, where no group does.
type watch struct {
	stop context.CancelFunc
	done chan struct{}
	over atomic.Bool
}

// glance is how often it looks.
const glance = 20 * time.Millisecond

func (w *watch) begin(g *instance) {
	main := guestproc.OpenMain(g.pid)
	if g.group != nil || main == nil {
		main.Close()
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	w.stop, w.done = stop, make(chan struct{})
	go func() {
		defer close(w.done)
		defer main.Close()
		ticker := time.NewTicker(glance)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			if resident(g.pid) > g.most() {
				w.over.Store(true)
				main.Kill()
				return
			}
		}
	}()
}

func (w *watch) end() {
	if w.stop != nil {
		w.stop()
		<-w.done
	}
}

func (w *watch) tripped() bool { return w.over.Load() }

// resident is the size of a process's memory that is there; 0 if it is gone.
func resident(pid int) int64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(data))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// users gives guests' processes their users, which only root has; nil gives
// none.
type users struct{ ids *hostids.IDs }

func openUsers(config Config) (*users, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	ids, err := hostids.Open(config.FirstUID, hostids.Modules)
	return &users{ids}, err
}

// take is a user that no other guest has, or nil for our own.
func (u *users) take() (*guestproc.User, func(), error) {
	if u == nil {
		return nil, func() {}, nil
	}
	id, back, err := u.ids.Take()
	return hostids.Credential(id), back, err
}

// uidOf is the number of a guest's user, 0 for our own.
func uidOf(user *guestproc.User) int {
	if user == nil {
		return 0
	}
	return int(user.Uid)
}

// parkedCPU is the bound of processor time of a guest whose job is not known.
func parkedCPU(job.Duration) job.Duration { return job.Duration(24 * time.Hour) }

// namespaces are those that a process gets without any privilege, or as root.
// A process namespace is none of them: its first process cannot be ended by a
// signal of its own, which is how a crash is told.
func namespaces() syscall.SysProcAttr {
	attr := syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWNS}
	if uid, gid := os.Geteuid(), os.Getegid(); uid != 0 {
		attr.Cloneflags |= unix.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
	}
	return attr
}

// checkConfined looks at a guest's process from outside.
func checkConfined(pid int, left bool) error {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return fmt.Errorf("look at the guest from outside: %w", err)
	}
	const none = "0000000000000000"
	want := map[string]string{"NoNewPrivs": "1", "Seccomp": "2", "CapPrm": none, "CapEff": none, "CapInh": none, "CapAmb": none}
	var errs []error
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		if must, ok := want[name]; ok && value == must {
			delete(want, name)
		}
		if ids := strings.Fields(value); left && (name == "Uid" || name == "Gid") && (len(ids) == 0 || ids[0] == "0") {
			errs = append(errs, fmt.Errorf("the guest's process has %s 0", name))
		}
	}
	for name, must := range want {
		errs = append(errs, fmt.Errorf("the guest's process has another %s than %s", name, must))
	}
	return errors.Join(errs...)
}
