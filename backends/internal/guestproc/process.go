package guestproc

import (
	"io"
	"os"
)

// process is a started process that a goroutine waits for.
type process struct {
	os  *os.Process
	pid int
	// exited is closed when state and err are set.
	exited chan struct{}
	state  *os.ProcessState
	err    error
}

// Pid implements Process, as do the methods below.
func (p *process) Pid() int { return p.pid }

func (p *process) Exited() <-chan struct{} { return p.exited }

func (p *process) Kill() { _ = p.os.Kill() }

func (p *process) Ended() (*os.ProcessState, error) { return p.state, p.err }

// ended reports whether the process has been waited for.
func ended(p Process) bool {
	select {
	case <-p.Exited():
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

// release frees what a process that has ended leaves with us, if anything.
func release(p Process) error {
	if c, ok := p.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
