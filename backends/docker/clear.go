package docker

import (
	"runtime"
	"sync"
)

// clearer removes the containers of guests that are over, behind the backs of
// the Runs that are done with them.
type clearer struct {
	// waiting bounds how many are begun, working how many are removed at
	// once: a removal is processor time that a start would have.
	waiting, working chan struct{}
	all              sync.WaitGroup
}

// waitingPerCore is how many containers may await their removal: as many as a
// burst of short jobs leaves, and few enough that an engine that is slow to
// remove slows down those who make more.
const waitingPerCore = 4

func newClearer() *clearer {
	cores := runtime.NumCPU()
	return &clearer{waiting: make(chan struct{}, waitingPerCore*cores), working: make(chan struct{}, cores)}
}

// later has clear called soon, and returns at once unless too many wait.
func (c *clearer) later(clear func()) {
	c.waiting <- struct{}{}
	c.all.Go(func() {
		defer func() { <-c.waiting }()
		c.working <- struct{}{}
		defer func() { <-c.working }()
		clear()
	})
}

// wait returns when all is cleared. Nobody calls later any more.
func (c *clearer) wait() { c.all.Wait() }
