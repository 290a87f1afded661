//go:build unix

package guestproc

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// User is who a guest's process is on the host.
type User = syscall.Credential

// how is the signal that ended the process, or "" and its exit code.
func (Ending) how(status syscall.WaitStatus) (signal string, code int) {
	if status.Signaled() {
		return unix.SignalName(status.Signal()), 0
	}
	return "", status.ExitStatus()
}
