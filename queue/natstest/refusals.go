package natstest

import (
	"fmt"
	"strings"
	"sync"
)

// refusals is the server's log, of which it keeps what permissions refused.
type refusals struct {
	mu       sync.Mutex // guards what follows
	expected bool
	lines    []string
}

func (r *refusals) expect() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expected = true
}

func (r *refusals) unexpected() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lines
}

// Errorf implements the server's Logger; it is where refusals are told.
func (r *refusals) Errorf(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	r.mu.Lock()
	defer r.mu.Unlock()
	if strings.Contains(line, "Violation") && !r.expected {
		r.lines = append(r.lines, line)
	}
}

// Noticef, Warnf, Fatalf, Debugf and Tracef implement the rest of it.
func (*refusals) Noticef(string, ...any) {}
func (*refusals) Warnf(string, ...any)   {}
func (*refusals) Fatalf(string, ...any)  {}
func (*refusals) Debugf(string, ...any)  {}
func (*refusals) Tracef(string, ...any)  {}
