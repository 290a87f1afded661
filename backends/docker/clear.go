package docker

import (
	"context"
	"runtime"
	"sync"
	"time"
)

// clearer removes the containers of guests that are over, behind the backs of
// the Runs that are done with them.
type clearer struct {
	// waiting bounds how many are begun, working how many are removed at
	// once: a removal is processor time that a start would have.
	waiting, working chan struct{}
	all              sync.WaitGroup

	ctx    context.Context // that of removals, which outlive every Run
	cancel context.CancelFunc
}

// waitingPerCore is how many containers may await their removal: as many as a
// burst of short jobs leaves, and few enough that an engine that is slow to
// remove slows down those who make more.
const waitingPerCore = 4

func newClearer() *clearer {
	cores := runtime.NumCPU()
	c := &clearer{waiting: make(chan struct{}, waitingPerCore*cores), working: make(chan struct{}, cores)}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// later has clear called soon, and returns at once unless too many wait.
func (c *clearer) later(clear func(context.Context)) {
	c.waiting <- struct{}{}
	c.all.Go(func() {
		defer func() { <-c.waiting }()
		c.working <- struct{}{}
		defer func() { <-c.working }()
		clear(c.ctx)
	})
}

// lastRemovals is how long an engine may take to remove the last containers of
// a worker that ends. What an engine that hangs keeps is left to a sweeper.
const lastRemovals = 20 * time.Second

// wait returns when all is cleared or given up. Nobody calls later any more.
func (c *clearer) wait() {
	timer := time.AfterFunc(lastRemovals, c.cancel)
	defer timer.Stop()
	c.all.Wait()
	c.cancel()
}
