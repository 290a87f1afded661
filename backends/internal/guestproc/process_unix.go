//go:build unix

package guestproc

import "os"

// process is a started process that a goroutine waits for.
type process struct {
	os  *os.Process
	pid int
	// exited is closed when state and err are set.
	exited chan struct{}
	state  *os.ProcessState
	err    error
}

// ended reports whether the process has been waited for.
func (p *process) ended() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// wait waits for the end; it is called once.
func (p *process) wait() {
	p.state, p.err = p.os.Wait()
	close(p.exited)
}
