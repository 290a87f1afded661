package standalone

import (
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// detach keeps the terminal's signals away from the server, and has it shut
// down when we die.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr.Setpgid = true
	cmd.SysProcAttr.Pdeathsig = syscall.SIGINT
}

// servesDir reports whether the process is a postmaster on dir: it is the
// server's first act to make that its working directory.
func servesDir(pid int, dir string) bool {
	cwd, err := os.Stat("/proc/" + strconv.Itoa(pid) + "/cwd")
	if err != nil {
		return false
	}
	want, err := os.Stat(dir)
	return err == nil && os.SameFile(cwd, want)
}
