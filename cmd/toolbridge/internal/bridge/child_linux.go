package bridge

import (
	"os/exec"
	"syscall"
)

// inherited are the variables of ours that a server gets unasked.
var inherited = []string{"PATH", "HOME"}

// own makes the command a group that this process can end, and has the kernel
// end its leader when this process is killed.
func own(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
