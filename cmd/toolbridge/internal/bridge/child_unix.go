//go:build !windows

package bridge

import (
	"os/exec"
	"syscall"
)

// askGroup asks the command and what it started to end.
func askGroup(cmd *exec.Cmd) { syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) } // fails only when none is left

// killGroup ends them. A group keeps its number while one of it lives.
func killGroup(cmd *exec.Cmd) { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // fails only when none is left
