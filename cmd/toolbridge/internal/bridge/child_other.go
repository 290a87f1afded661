//go:build !linux && !windows

package bridge

import (
	"os/exec"
	"syscall"
)

// inherited are the variables of ours that a server gets unasked.
var inherited = []string{"PATH", "HOME"}

// own makes the command a group that this process can end.
func own(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
