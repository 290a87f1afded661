package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// surveyEvery is how often the stream itself is asked which places have
	// jobs, for the bells that were lost; less often where that takes more
	// than one part in surveyShare of a worker's time.
	surveyEvery = 3 * time.Second
	surveyShare = 50
	// dropIdle is when a worker no longer looks into a place that is empty.
	dropIdle = 30 * time.Second
	// admitAtOnce bounds how many consumers are made before the next claim.
	admitAtOnce = 8
)

// membership is a lane that a worker has joined.
type membership struct {
	lane string
	bell *nats.Subscription

	// mu guards what follows. Only the goroutine of Consume changes sources,
	// and reads them without it.
	mu      sync.Mutex
	sources map[place]*source
	// strangers are places that rang and have no source yet.
	strangers map[place]bool
}

// join listens for the lane's bell. What came before is found by a survey,
// which must follow.
func (q *Queue) join(lane string, wake chan<- struct{}) (*membership, error) {
	m := &membership{lane: lane, sources: map[place]*source{}, strangers: map[place]bool{}}
	bell, err := q.nc.Subscribe(strings.Join([]string{prefixBell, lane, "*", "*"}, "."), func(msg *nats.Msg) { m.ring(msg.Subject, wake) })
	if err != nil {
		return nil, fmt.Errorf("join lane %s: %w", lane, err)
	}
	m.bell = bell
	return m, nil
}

func (m *membership) leave() error {
	if err := m.bell.Unsubscribe(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		return fmt.Errorf("leave lane: %w", err)
	}
	return nil
}

func (m *membership) ring(subject string, wake chan<- struct{}) {
	p, err := parsePlace(subject, prefixBell)
	if err != nil || p.lane != m.lane {
		return
	}
	m.mu.Lock()
	if s := m.sources[p]; s != nil {
		s.rings.Add(1)
		s.ready.Store(true)
	} else if len(m.strangers) < maxConsumers {
		m.strangers[p] = true
	}
	m.mu.Unlock()
	select {
	case wake <- struct{}{}:
	default:
	}
}

// note makes a place without a source a stranger.
func (m *membership) note(p place) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sources[p] == nil {
		m.strangers[p] = true
	}
}

// stranger takes one out.
func (m *membership) stranger() (place, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for p := range m.strangers {
		delete(m.strangers, p)
		return p, true
	}
	return place{}, false
}

func (m *membership) add(s *source) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sources[s.place] = s
}

func (m *membership) drop(p place) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.sources, p)
}

// admit opens sources for strangers, some at a time. One that cannot be opened
// is found again by the next survey.
func (c *consumption) admit(ctx context.Context) {
	admitted := 0
	for _, m := range c.lanes {
		for admitted < admitAtOnce {
			p, ok := m.stranger()
			if !ok {
				break
			}
			admitted++
			s, err := c.q.openSource(ctx, p)
			if err != nil {
				c.log.Warn().Err(err).Str("subject", p.subject()).Msg("jobs cannot be claimed, trying again")
				continue
			}
			m.add(s)
		}
	}
	if admitted == 0 {
		return
	}
	c.arrange()
	if admitted == admitAtOnce {
		c.rouse()
	}
}

// survey asks the stream which places have jobs: those that this worker does
// not know are admitted, and those that have been empty for long dropped.
func (c *consumption) survey(ctx context.Context) {
	began := time.Now()
	stored, err := c.q.stored(ctx)
	if err != nil {
		if ctx.Err() == nil {
			c.log.Debug().Err(err).Msg("queue could not be surveyed")
		}
		return
	}
	c.nextSurvey = time.Now().Add(max(surveyEvery, surveyShare*time.Since(began)))
	for p := range stored {
		if m := c.lanes[p.lane]; m != nil {
			m.note(p)
		}
	}
	for _, s := range c.sources {
		if stored[s.place] == 0 && time.Since(s.found) > dropIdle && !s.ready.Load() {
			c.lanes[s.place.lane].drop(s.place)
		}
	}
	c.arrange()
	c.rouse()
}

// stored counts the messages of JOBS by place, running jobs among them.
func (q *Queue) stored(ctx context.Context) (map[place]int, error) {
	stored := map[place]int{}
	err := q.look(ctx, func(ctx context.Context) error {
		info, err := q.jobs.Info(ctx, jetstream.WithSubjectFilter(prefixJobs+".>"))
		if err != nil {
			return err
		}
		for subject, count := range info.State.Subjects {
			if p, ok := storedPlace(subject); ok {
				stored[p] = int(count)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("count jobs: %w", err)
	}
	return stored, nil
}
