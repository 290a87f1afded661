//go:build unix && !linux

package standalone

import (
	"os"
	"os/exec"
	"syscall"
)

// detach keeps the terminal's signals away from the server. These systems
// have no signal for a parent's death: a killed parent's server is stopped by
// the next start.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr.Setpgid = true
}

// servesDir can only tell that the process lives; pg_ctl, which the caller
// uses, checks the rest.
func servesDir(pid int, _ string) bool {
	process, err := os.FindProcess(pid)
	return err == nil && process.Signal(syscall.Signal(0)) == nil
}
