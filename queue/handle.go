package queue

import (
	"context"
	"errors"
	"time"

	"airlock/job"
)

const (
	// unreadableDelay puts off a message whose body cannot be had just now.
	unreadableDelay = 2 * time.Second
	// twiceDelay puts off the second delivery of a job that runs here.
	twiceDelay = 5 * time.Second
)

// handle decodes a message and runs the handler, unless the job is running
// here already. leave frees the slot, and depart the place.
func (c *consumption) handle(msg *message, leave, depart func()) {
	ctx := c.cfg.HandlerContext
	a, raw, err := c.q.readArrival(ctx, msg, prefixJobs)
	switch {
	case errors.Is(err, errMalformed):
		c.discard(ctx, msg, raw, err)
		return
	case err != nil:
		c.putOff(msg, unreadableDelay, "job could not be read just now", err)
		return
	case !c.enter(a.job.ID):
		c.putOff(msg, twiceDelay, "job was delivered twice", nil)
		return
	}
	defer c.exit(a.job.ID)
	d := c.q.delivery(a, msg, depart)
	d.Leave = leave
	c.cfg.Handler(ctx, d)
	c.q.meter.count(a.job.Requires.Lane(), time.Now())
}

// discard takes a message out of the queue that would otherwise come back for
// ever.
func (c *consumption) discard(ctx context.Context, msg *message, raw []byte, cause error) {
	c.log.Warn().Err(cause).Str("subject", job.Printable(msg.Subject(), 200)).Msg("malformed job taken out of the queue")
	if c.cfg.Malformed != nil {
		c.cfg.Malformed(ctx, msg.Subject(), raw, cause)
	}
	if err := msg.TermWithReason("malformed"); err != nil {
		c.log.Warn().Err(err).Msg("malformed job could not be taken out")
	}
}

func (c *consumption) putOff(msg *message, delay time.Duration, why string, cause error) {
	c.log.Info().Err(cause).Str("subject", job.Printable(msg.Subject(), 200)).Msg(why)
	if err := msg.NakWithDelay(delay); err != nil {
		c.log.Warn().Err(err).Msg("job could not be put off")
	}
}

func (c *consumption) enter(id job.ID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running[id] {
		return false
	}
	c.running[id] = true
	return true
}

func (c *consumption) exit(id job.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.running, id)
}
