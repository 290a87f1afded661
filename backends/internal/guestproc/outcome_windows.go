package guestproc

import (
	"fmt"
	"syscall"
)

// User is who a guest's process is on the host; here it is always ours.
type User struct{}

// killCode is the exit code of what we kill. No guest exits with it: its own
// codes have eight bits.
const killCode = 0xE0A1_0009

// The codes of processes that crashed begin at firstCrash.
const (
	firstCrash      = 0xC000_0000
	accessViolation = 0xC000_0005
	failedFast      = 0xC000_0409
)

// runtimeGaveUp is how Go's runtime exits that got no memory.
const runtimeGaveUp = 2

// how is the signal of which the process's end is the like, or "" and its exit
// code.
func (e Ending) how(status syscall.WaitStatus) (signal string, code int) {
	switch code := uint32(status.ExitStatus()); {
	case code == killCode, code == runtimeGaveUp && e.Usage.OOMKills > 0:
		return killed, 0
	case code == accessViolation:
		return "SIGSEGV", 0
	case code == failedFast:
		return "SIGABRT", 0
	case code >= firstCrash:
		return fmt.Sprintf("0x%X", code), 0
	default:
		return "", int(code)
	}
}
