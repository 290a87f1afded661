package worker

import (
	"sync"
	"time"

	"airlock/job"
)

// clock measures a guest's own time by the host's monotonic clock: it runs
// from Start and stands still while at least one call is open. When it reaches
// the limit it calls expire, once.
type clock struct {
	limit  time.Duration
	expire func()

	mu      sync.Mutex
	started bool          // guarded by mu, as all below
	paused  int           // how many calls are open
	spent   time.Duration // before since
	since   time.Time     // of the current stretch
	timer   *time.Timer
}

func newClock(limit time.Duration, expire func()) *clock {
	return &clock{limit: limit, expire: expire}
}

// hooks are what a conversation steers the clock with.
func (c *clock) hooks() job.Clock {
	return job.Clock{Start: c.start, Pause: c.pause, Resume: c.resume}
}

func (c *clock) start() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.started {
		return
	}
	c.started = true
	if c.paused == 0 {
		c.run()
	}
}

func (c *clock) pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.paused++; c.paused == 1 {
		c.halt()
	}
}

func (c *clock) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.paused--; c.paused == 0 && c.started {
		c.run()
	}
}

// stop ends the measurement and returns the time spent.
func (c *clock) stop() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.halt()
	c.started = false
	return c.spent
}

// run starts a stretch; mu is held.
func (c *clock) run() {
	c.since = time.Now()
	c.timer = time.AfterFunc(max(0, c.limit-c.spent), c.expire)
}

// halt ends a stretch; mu is held.
func (c *clock) halt() {
	if c.timer == nil {
		return
	}
	c.timer.Stop()
	c.timer = nil
	c.spent += time.Since(c.since)
}
