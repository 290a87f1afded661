//go:build unix

package failpoint

import (
	"os"
	"syscall"
)

// kill ends the process as the kernel would. It does not return.
func kill() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// stop returns what halts the whole process until somebody sends SIGCONT.
func stop() (func(), error) {
	return func() { _ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) }, nil
}
