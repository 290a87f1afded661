package guestproc

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// umask is the guest's: what it makes is its own.
const umask = 0o077

// start starts the process on a thread of its own that lives as long as the
// process, since the kernel sends the parent's death signal when the thread
// that forked dies.
func (g *Guest) start(files []*os.File) (Process, error) {
	p := &process{exited: make(chan struct{})}
	started := make(chan error, 1)
	offMainThread(func() { g.keep(p, files, started) })
	return p, <-started
}

// StartChild starts a process that dies with this one and is no guest. Its
// files are its descriptors, and it gets no others.
func StartChild(path string, args []string, attr *os.ProcAttr) (Process, error) {
	p := &process{exited: make(chan struct{})}
	started := make(chan error, 1)
	attr.Sys.Pdeathsig, attr.Sys.Setsid = syscall.SIGKILL, true
	offMainThread(func() {
		err := closeOnExec()
		if err == nil {
			p.os, err = os.StartProcess(path, args, attr)
		}
		if err != nil {
			started <- err
			return
		}
		p.pid = p.os.Pid
		started <- nil
		p.wait()
	})
	return p, <-started
}

// keep starts the process and waits for it.
func (g *Guest) keep(p *process, files []*os.File, started chan<- error) {
	if err := g.spawn(p, files); err != nil {
		if p.os != nil {
			_ = p.os.Kill()
			p.wait()
		}
		started <- err
		return
	}
	started <- nil
	p.wait()
}

// awakeTime is how long a program may take from its exec to its first act.
const awakeTime = 10 * time.Second

// spawn starts the process inside its group and bounds.
func (g *Guest) spawn(p *process, files []*os.File) error {
	// The umask belongs to the whole process unless a thread leaves that
	// share; the thread is not used for anything else.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("unshare umask: %w", err)
	}
	unix.Umask(umask)
	if err := closeOnExec(); err != nil {
		return err
	}
	attr := g.Attr
	attr.Pdeathsig = syscall.SIGKILL
	attr.Setsid = true
	start := func(attr *syscall.SysProcAttr) (err error) {
		p.os, err = os.StartProcess(g.Path, g.Args, &os.ProcAttr{Dir: g.Dir, Env: g.env(), Files: files, Sys: attr})
		if err != nil {
			return err
		}
		p.pid = p.os.Pid
		if g.Awake != nil {
			if err := g.Awake(p.pid, awakeTime); err != nil {
				return err
			}
		}
		return asUser(attr.Credential, func() error { return g.bound(p.pid) })
	}
	if g.Group == nil {
		return start(&attr)
	}
	return g.Group.Enter(&attr, start)
}

// boundTries is how often the bounds are set of a process that is taking on
// other ids: it has one of them, then the other.
const boundTries = 10

// bound sets the bounds. Root without CAP_SYS_RESOURCE, as in a container, may
// bound no process that has another's ids by then.
func (g *Guest) bound(pid int) error {
	for try := 1; ; try++ {
		err := g.Bounds.apply(pid)
		if err == nil || g.Becomes == nil || !errors.Is(err, unix.EPERM) {
			return err
		}
		if err = asUser(g.Becomes, func() error { return g.Bounds.apply(pid) }); err == nil || try == boundTries {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

// asUser runs f with the real ids of the process that was started, on this
// thread only and with its privileges kept: the kernel lets a process bound
// another of the same ids, or with CAP_SYS_RESOURCE, which root in a container
// lacks. The thread must be one that ends with the guest.
func asUser(user *syscall.Credential, f func() error) error {
	const keep = ^uintptr(0)
	if user == nil {
		return f()
	}
	steps := []struct{ call, id, back uintptr }{
		{unix.SYS_SETRESGID, uintptr(user.Gid), uintptr(os.Getgid())},
		{unix.SYS_SETRESUID, uintptr(user.Uid), uintptr(os.Getuid())},
	}
	for _, s := range steps {
		if _, _, errno := unix.RawSyscall(s.call, s.id, keep, keep); errno != 0 {
			return fmt.Errorf("take on the guest's ids: %w", errno)
		}
	}
	err := f()
	for _, s := range steps {
		if _, _, errno := unix.RawSyscall(s.call, s.back, keep, keep); errno != 0 {
			err = errors.Join(err, fmt.Errorf("take on own ids: %w", errno))
		}
	}
	return err
}

// env is never nil, which would mean our own environment.
func (c *Command) env() []string { return append([]string{}, c.Env...) }

// offMainThread runs f in a goroutine that owns its thread, which ends with
// it. It is never the process's first thread: that one stands for the whole
// process in the eyes of the memory controller, and cannot end.
func offMainThread(f func()) {
	began := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() {
			// Holding the first thread makes the next goroutine get another.
			offMainThread(f)
			runtime.UnlockOSThread()
			close(began)
			return
		}
		close(began)
		f()
	}()
	<-began
}

// closeOnExec marks each descriptor that this process was itself started with
// or that a library left open, so that no guest inherits it: Go marks its own,
// and bwrap passes on whatever it gets.
func closeOnExec() error {
	err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	if err == nil {
		return nil
	}
	if !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("close descriptors on exec: %w", err)
	}
	return closeEachOnExec() // before Linux 5.11
}

func closeEachOnExec() error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("list descriptors: %w", err)
	}
	for _, entry := range entries {
		if fd, err := strconv.Atoi(entry.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
	return nil
}
