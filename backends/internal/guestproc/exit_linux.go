package guestproc

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Main is a descriptor of a guest's main process, which need not be a child of
// ours. The zero value is not valid; a nil Main knows nothing.
type Main struct{ fd int }

// OpenMain opens the process, or returns nil where the kernel cannot.
func OpenMain(pid int) *Main {
	if pid <= 0 {
		return nil
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil
	}
	return &Main{fd}
}

// reaping is how long a dead process may take to be reaped by its init.
const reaping = 50 * time.Millisecond

// Status is how the process ended. A process is told apart from one that only
// exits with the number of a signal by asking the kernel, since Linux 6.15;
// ok is false before, or while the process lives.
func (m *Main) Status() (status syscall.WaitStatus, ok bool) {
	if m == nil {
		return 0, false
	}
	for deadline := time.Now().Add(reaping); ; {
		info := unix.PidfdInfo{Mask: unix.PIDFD_INFO_EXIT}
		if err := unix.IoctlPidfdInfo(m.fd, &info); err != nil {
			return 0, false
		}
		if info.Mask&unix.PIDFD_INFO_EXIT != 0 {
			return syscall.WaitStatus(info.Exit_code), true
		}
		if !m.dead() || time.Now().After(deadline) {
			return 0, false
		}
		_, _ = unix.Poll(nil, 1)
	}
}

// dead reports whether the process has exited, reaped or not.
func (m *Main) dead() bool {
	polls := []unix.PollFd{{Fd: int32(m.fd), Events: unix.POLLIN}}
	n, err := unix.Poll(polls, 0)
	return err == nil && n == 1
}

// Kill kills the process.
func (m *Main) Kill() {
	if m != nil {
		_ = unix.PidfdSendSignal(m.fd, unix.SIGKILL, nil, 0)
	}
}

// Wait waits until the process is dead, or until the deadline, and reports
// which.
func (m *Main) Wait(deadline time.Time) bool {
	if m == nil {
		return true
	}
	for !m.dead() {
		left := time.Until(deadline).Milliseconds()
		if left <= 0 {
			return false
		}
		polls := []unix.PollFd{{Fd: int32(m.fd), Events: unix.POLLIN}}
		_, _ = unix.Poll(polls, int(left))
	}
	return true
}

// Close frees the descriptor. It is called once.
func (m *Main) Close() {
	if m != nil {
		_ = unix.Close(m.fd)
	}
}
