package queue

import (
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// answerPatience is how long an answer is waited for that takes microseconds,
	// before something else is looked at. One that comes later is no less good.
	answerPatience = time.Second
	// askAgain is when a question is put again that has no answer: an election
	// may have swallowed it. Both may then be answered.
	askAgain = 5 * time.Second
	// pullsAhead is more than the answers that can come while nobody takes them.
	pullsAhead = 1024
)

// question is what a source was asked and has not answered.
type question struct {
	name string
	at   time.Time
	// reconnects is how often the connection had been lost: a question does
	// not outlive it.
	reconnects uint64
}

// fetch takes one message if there is one. It is quick when there is none: the
// server answers at once. A message that comes meanwhile for an earlier question
// is as good; what this source gives out is then late itself.
func (c *consumption) fetch(s *source) (*message, error) {
	s.ready.Store(false) // before the fetch, so that a bell during it is heard
	if err := c.question(s); err != nil {
		return nil, err
	}
	timer := time.NewTimer(answerPatience)
	defer timer.Stop()
	for s.asked.name != "" {
		select {
		case answer := <-c.pulls.answers:
			if msg := c.hear(answer); msg != nil {
				return msg, nil
			}
		case <-timer.C:
			return nil, nil
		}
	}
	return nil, nil
}

// question asks a source for a message, unless it was asked and may still answer:
// a worker is not to be given more than it has slots.
func (c *consumption) question(s *source) error {
	reconnects := c.q.nc.Stats().Reconnects
	if s.asked.name != "" && s.asked.reconnects == reconnects && time.Since(s.asked.at) < askAgain {
		return nil
	}
	name, err := c.pulls.ask(s.consumer, 1, 0)
	if err == nil {
		s.asked = question{name, time.Now(), reconnects}
	}
	return err
}

// hear takes an answer, whichever question it is to, and returns its message,
// unless its lane was left since.
func (c *consumption) hear(answer *nats.Msg) *message {
	msg, ended, err := c.pulls.read(answer)
	if msg != nil {
		m, s := c.originOf(msg)
		if m == nil {
			c.giveBack(msg)
			return nil
		}
		if s != nil {
			s.asked, s.found = question{}, time.Now()
			if s.answered() || more(msg) {
				s.ready.Store(true)
			}
		}
		return msg
	}
	if err != nil {
		c.log.Debug().Err(err).Msg("fetch brought an error")
	}
	for _, s := range c.sources {
		if ended != "" && s.asked.name == ended {
			s.asked, s.broken = question{}, gone(err)
		}
	}
	return nil
}

// keep takes an answer that nobody waits for.
func (c *consumption) keep(answer *nats.Msg) {
	if msg := c.hear(answer); msg != nil {
		c.late = append(c.late, msg)
	}
}

// nextLate returns a message that was kept.
func (c *consumption) nextLate() (msg *message) {
	if len(c.late) > 0 {
		msg, c.late = c.late[0], c.late[1:]
	}
	return msg
}

// returnLate gives back the messages that were kept.
func (c *consumption) returnLate() {
	for msg := c.nextLate(); msg != nil; msg = c.nextLate() {
		c.giveBack(msg)
	}
}

func (c *consumption) giveBack(msg *message) {
	if err := msg.Nak(); err != nil {
		c.log.Warn().Err(err).Msg("job could not be given back, the queue will deliver it again")
	}
}

// originOf is where a message came from: nil for a lane that was left since, or a
// source that was dropped.
func (c *consumption) originOf(msg *message) (*membership, *source) {
	p, ok := storedPlace(msg.Subject())
	if m := c.lanes[p.lane]; ok && m != nil {
		return m, m.sources[p]
	}
	return nil, nil
}

// charge notes whose turn the message took.
func (c *consumption) charge(msg *message, ready eager) {
	_, s := c.originOf(msg)
	if s == nil {
		return
	}
	priority := priorityIndex(s.place.priority)
	ready[priority] = true
	c.sweep.served(priority, ready)
	c.serve(s)
}
