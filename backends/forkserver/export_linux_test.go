package forkserver

import (
	"errors"
	"time"
)

// What this host cannot show, or not soon, is tested by these.

// Hint says what to do about an error of a system call for namespaces.
var Hint = hint

// CheckAlone returns an error for a process with more than one thread.
var CheckAlone = checkAlone

// WithStartTime bounds the steps of a start otherwise than by default.
func (c Config) WithStartTime(d time.Duration) Config {
	c.startTime = d
	return c
}

// LauncherAt is another program that is started as a launcher.
func LauncherAt(path string) Launcher { return Launcher{path} }

// Launchers are the pids of the launchers of the templates that live.
func (b *Backend) Launchers() []int {
	r, err := b.life.Prepared.Get(func() (*ready, error) { return nil, errors.New("not prepared") })
	if err != nil {
		return nil
	}
	r.slots.mu.Lock()
	defer r.slots.mu.Unlock()
	var pids []int
	for t := range r.slots.living {
		if !t.ended() {
			pids = append(pids, t.launcher.Pid())
		}
	}
	return pids
}
