package bridge

import (
	"os/exec"
	"syscall"
)

// inherited are the variables of ours that a server gets unasked: without the
// last four most programs do not start.
var inherited = []string{"PATH", "HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "SYSTEMROOT", "PATHEXT", "COMSPEC", "TEMP"}

// own keeps a Ctrl-C at our console from the command, which ends with its input.
func own(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// askGroup does nothing: there is no way to ask.
func askGroup(*exec.Cmd) {}

// killGroup ends the command; what it started in turn ends by itself or not.
func killGroup(cmd *exec.Cmd) { cmd.Process.Kill() } // fails only when it has ended
