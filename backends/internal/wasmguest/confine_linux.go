package wasmguest

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"airlock/backends/internal/seccomp"

	"golang.org/x/sys/unix"
)

// confine gives up all that a guest's process does not need once its module
// is ready: a bug in the module's runtime is not the end then.
func confine(order Order) error {
	if err := leaveUser(order.User); err != nil {
		return err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// Another user's process has forgotten what it dies with.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("bind to the worker's life: %w", err)
	}
	if os.Getppid() != order.Parent {
		return errors.New("the worker is gone")
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("give up new privileges: %w", err)
	}
	return filter()
}

// leaveUser makes the process an unprivileged user's, with no groups.
func leaveUser(user int) error {
	if user == 0 {
		return nil
	}
	err := errors.Join(syscall.Setgroups(nil), syscall.Setresgid(user, user, user), syscall.Setresuid(user, user, user))
	if err != nil {
		return fmt.Errorf("become user %d: %w", user, err)
	}
	return nil
}

// filter sets the system-call filter of all threads.
func filter() error {
	program, err := seccomp.RuntimeProgram(runtime.GOARCH)
	if err != nil {
		return err
	}
	fprog := unix.SockFprog{Len: uint16(len(program) / 8), Filter: (*unix.SockFilter)(unsafe.Pointer(&program[0]))}
	_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&fprog)))
	if errno != 0 {
		return fmt.Errorf("set the system-call filter: %w", errno)
	}
	return nil
}

// crash ends the process as a native program that did the same would end. It
// returns only if that fails.
func crash(abort bool) int {
	signal := unix.SIGSEGV
	if abort {
		signal = unix.SIGABRT
	}
	// The runtime's handler would print its own state.
	var byDefault [32]byte
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(signal), uintptr(unsafe.Pointer(&byDefault)), 0, 8, 0, 0)
	runtime.LockOSThread()
	_ = unix.Tgkill(unix.Getpid(), unix.Gettid(), signal)
	return 128 + int(signal)
}
