package main

import (
	"sync"
	"time"
)

// lanes remembers which lanes took jobs in this run, to tell a job that nobody
// can run from workers that restart. The zero value is ready.
type lanes struct {
	mu           sync.Mutex // guards what follows
	placed, gone map[string]bool
}

// restartTime is how long the workers of a lane may be away.
const restartTime = time.Minute

func (l *lanes) took(lane string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.placed == nil {
		l.placed, l.gone = map[string]bool{}, map[string]bool{}
	}
	l.placed[lane] = true
	delete(l.gone, lane)
}

// worthWaiting reports whether the lane of a job that was first refused at the
// given time may come back: it took jobs before, and has not been away for
// longer than a restart.
func (l *lanes) worthWaiting(lane string, refused time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.placed[lane] || l.gone[lane] {
		return false
	}
	if time.Since(refused) > restartTime {
		l.gone[lane] = true
		return false
	}
	return true
}
