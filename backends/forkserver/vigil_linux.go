package forkserver

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// vigil waits for the end of a process that is not a child of ours, without a
// thread of its own.
type vigil struct {
	pidfd *os.File
	done  chan struct{}
}

// watch calls ended in another goroutine when the process has ended.
func watch(pid int, ended func()) (*vigil, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("watch the slot: %w; Linux 5.10 or later is needed", err)
	}
	v := &vigil{pidfd: os.NewFile(uintptr(fd), "slot"), done: make(chan struct{})}
	conn, err := v.pidfd.SyscallConn()
	if err != nil {
		_ = v.pidfd.Close()
		return nil, fmt.Errorf("watch the slot: %w", err)
	}
	go v.wait(conn, ended)
	return v, nil
}

func (v *vigil) wait(conn syscall.RawConn, ended func()) {
	defer close(v.done)
	dead := func(fd uintptr) bool {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return n == 1 && err == nil
	}
	if conn.Read(dead) == nil { // else end was called
		ended()
	}
}

// end ends the wait. A nil vigil waits for nothing.
func (v *vigil) end() {
	if v != nil {
		_ = v.pidfd.Close()
		<-v.done
	}
}

// died kills what is left of a slot that ended before it was told to: the first
// process of a guest's pid namespace holds the slot's descriptors, and so would
// keep its death from being seen.
func (s *slot) died() {
	if s.group == nil {
		// Nothing shows who that process is, but it dies with the launcher.
		s.template.launcher.Kill()
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	_ = s.group.Kill(ctx) // what cannot be killed is told of when the slot is given back
}

// ended reports whether the slot is seen to be dead.
func (s *slot) ended() bool { return s.process.Wait(time.Time{}) }
