package guestproc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"
	"unsafe"

	"airlock/backends/internal/cgroup"

	"golang.org/x/sys/windows"
)

// jobObject is what holds a process: it bounds its memory, lets it start no
// other, and ends it with us.
type jobObject struct {
	object windows.Handle
	// port is where the system tells which limits were reached.
	port windows.Handle

	mu     sync.Mutex
	before time.Duration // of what was used, what does not count; guarded by mu
}

// The limits, and what the system tells when a process reaches its memory's.
const (
	limitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE | windows.JOB_OBJECT_LIMIT_ACTIVE_PROCESS |
		windows.JOB_OBJECT_LIMIT_PROCESS_MEMORY | windows.JOB_OBJECT_LIMIT_DIE_ON_UNHANDLED_EXCEPTION
	processMemoryReached = 9
)

// completionPort is JOBOBJECT_ASSOCIATE_COMPLETION_PORT.
type completionPort struct {
	key  uintptr
	port windows.Handle
}

// accounting is JOBOBJECT_BASIC_ACCOUNTING_INFORMATION; times are in 100 ns.
type accounting struct {
	user, kernel, periodUser, periodKernel                int64
	faults, processes, activeProcesses, endedForItsLimits uint32
}

// newJobObject makes one with the bounds, and refuses a system that takes the
// limits and then does not have them: it would hold nothing.
func newJobObject(b Bounds) (_ *jobObject, err error) {
	j := &jobObject{}
	defer func() {
		if err != nil {
			err = fmt.Errorf("make job object: %w", errors.Join(err, j.Close()))
		}
	}()
	if j.object, err = windows.CreateJobObject(nil, nil); err != nil {
		return nil, err
	}
	if j.port, err = windows.CreateIoCompletionPort(windows.InvalidHandle, 0, 0, 1); err != nil {
		return nil, err
	}
	told := completionPort{port: j.port}
	if err := j.set(windows.JobObjectAssociateCompletionPortInformation, unsafe.Pointer(&told), unsafe.Sizeof(told)); err != nil {
		return nil, err
	}
	want := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{ProcessMemoryLimit: uintptr(b.Memory)}
	want.BasicLimitInformation.LimitFlags = limitFlags
	want.BasicLimitInformation.ActiveProcessLimit = 1
	if err := j.set(windows.JobObjectExtendedLimitInformation, unsafe.Pointer(&want), unsafe.Sizeof(want)); err != nil {
		return nil, err
	}
	if b.Unheld {
		return j, nil
	}
	return j, j.check(want)
}

// errNotHeld is what a system is refused for.
var errNotHeld = errors.New("this system takes a limit and does not keep it: use a Windows of Microsoft's, since Wine and the like hold no limits")

// check reads back what was set.
func (j *jobObject) check(want windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION) error {
	var got windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	if err := j.query(windows.JobObjectExtendedLimitInformation, unsafe.Pointer(&got), unsafe.Sizeof(got)); err != nil {
		return err
	}
	basic, wanted := got.BasicLimitInformation, want.BasicLimitInformation
	switch {
	case basic.LimitFlags&limitFlags != limitFlags:
		return fmt.Errorf("%w (flags %#x, want %#x)", errNotHeld, basic.LimitFlags, uint32(limitFlags))
	case basic.ActiveProcessLimit != wanted.ActiveProcessLimit:
		return fmt.Errorf("%w (%d processes, want %d)", errNotHeld, basic.ActiveProcessLimit, wanted.ActiveProcessLimit)
	case got.ProcessMemoryLimit > want.ProcessMemoryLimit || got.ProcessMemoryLimit == 0:
		return fmt.Errorf("%w (%d bytes of memory, want %d)", errNotHeld, got.ProcessMemoryLimit, want.ProcessMemoryLimit)
	}
	return nil
}

func (j *jobObject) set(class uint32, info unsafe.Pointer, size uintptr) error {
	_, err := windows.SetInformationJobObject(j.object, class, uintptr(info), uint32(size))
	return err
}

func (j *jobObject) query(class int32, info unsafe.Pointer, size uintptr) error {
	return windows.QueryInformationJobObject(j.object, class, uintptr(info), uint32(size), nil)
}

// hold puts the process in, and looks whether it is.
func (j *jobObject) hold(p *os.Process) error {
	var refused error
	err := p.WithHandle(func(h uintptr) { refused = windows.AssignProcessToJobObject(j.object, windows.Handle(h)) })
	if err = errors.Join(err, refused); err != nil {
		return fmt.Errorf("put into job object: %w", err)
	}
	counted, err := j.counted()
	if err == nil && counted.processes != 1 {
		err = fmt.Errorf("put into job object: it holds %d processes, want 1", counted.processes)
	}
	return err
}

// kill ends all that is in it.
func (j *jobObject) kill() { _ = windows.TerminateJobObject(j.object, killCode) }

func (j *jobObject) counted() (accounting, error) {
	var a accounting
	if err := j.query(windows.JobObjectBasicAccountingInformation, unsafe.Pointer(&a), unsafe.Sizeof(a)); err != nil {
		return a, fmt.Errorf("read processor time: %w", err)
	}
	return a, nil
}

// tick is the unit of times.
const tick = 100 * time.Nanosecond

func (j *jobObject) cpu() (time.Duration, error) {
	a, err := j.counted()
	if err != nil {
		return 0, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return time.Duration(a.user+a.kernel)*tick - j.before, nil
}

// Restart has what was used so far not count.
func (j *jobObject) Restart() error {
	used, err := j.cpu()
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.before += used
	return nil
}

// Usage is what was counted. It is called once, when nothing runs any more.
func (j *jobObject) Usage() (u cgroup.Usage, err error) {
	u.CPU, err = j.cpu()
	for {
		var message uint32
		var key uintptr
		var about *windows.Overlapped
		if windows.GetQueuedCompletionStatus(j.port, &message, &key, &about, 0) != nil {
			return u, err
		}
		if message == processMemoryReached {
			u.OOMKills++
		}
	}
}

// glance is the least that the watch of processor time sleeps.
const glance = 10 * time.Millisecond

// WaitCPU blocks until so much processor time is used, and then returns nil,
// or until ctx ends.
func (j *jobObject) WaitCPU(ctx context.Context, limit time.Duration) error {
	for {
		used, err := j.cpu()
		if err != nil || used >= limit {
			return err
		}
		timer := time.NewTimer(max((limit-used)/time.Duration(runtime.NumCPU()), glance))
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-timer.C:
		}
	}
}

// Close frees it, and ends what is still in it.
func (j *jobObject) Close() (err error) {
	for _, h := range []windows.Handle{j.object, j.port} {
		if h != 0 {
			err = errors.Join(err, windows.CloseHandle(h))
		}
	}
	return err
}
