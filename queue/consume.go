package queue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"airlock/job"
)

const (
	// A redelivered message rings no bell, and bells may be lost, so every
	// lane is looked at again after a time between tickMin and tickMax.
	tickMin = 250 * time.Millisecond
	tickMax = time.Second
	// rejoinAfter is how long a lane that could not be joined is left alone.
	rejoinAfter = 5 * time.Second
	// minEnding is twice as many results as a store commits together, so that
	// they gather where slots are few.
	minEnding = 16
)

// Handler takes one delivery. It returns when the worker is done with it,
// acknowledged or not; what is not acknowledged is delivered again, to anyone.
type Handler func(ctx context.Context, d job.Delivery)

// ConsumerConfig says what a worker consumes, and how.
type ConsumerConfig struct {
	// Offers are what the worker can run just now. It is called often, by
	// the goroutine of Consume, and must be quick.
	Offers func() []job.Offer
	// Slots is how many handlers may run at once that have not called their
	// delivery's Leave. Those that have, and have not begun to acknowledge, are
	// as many at most, or 16 if that is more.
	Slots   int
	Handler Handler
	// HandlerContext is the handlers' context. By default they get one that
	// does not end with Consume's: draining lets them finish.
	HandlerContext context.Context
	// Malformed, if set, is told of a message that can never be read, before
	// it is taken out of the queue. Body is what could be had of it. All of
	// it is foreign.
	Malformed func(ctx context.Context, subject string, body []byte, err error)
}

// Consume claims jobs of the lanes that the worker's offers satisfy, and hands
// each to Handler in a goroutine of its own. It asks the queue only when a slot
// is free, so that no job waits at a busy worker. It serves high, normal and
// low 8:4:1, within a priority tenants in turn, and of a tenant lanes in turn.
//
// It blocks until ctx has ended and every handler has returned. The error says
// what is wrong with cfg; while the server is away it waits.
func (q *Queue) Consume(ctx context.Context, cfg ConsumerConfig) error {
	if cfg.Offers == nil || cfg.Handler == nil || cfg.Slots < 1 {
		return errors.New("consume: Offers, Handler and at least one slot are required")
	}
	if cfg.HandlerContext == nil {
		cfg.HandlerContext = context.WithoutCancel(ctx)
	}
	c := &consumption{
		q: q, cfg: cfg, log: q.cfg.Log,
		lanes: map[string]*membership{}, failed: map[string]time.Time{}, running: map[job.ID]bool{},
		tenants: map[string]uint64{},
		wake:    make(chan struct{}, 1), busy: make(chan struct{}),
		slots: make(chan struct{}, cfg.Slots), places: make(chan struct{}, cfg.Slots+max(cfg.Slots, minEnding)),
	}
	close(c.busy)
	var err error
	if c.pulls, err = q.newPuller(pullsAhead); err != nil {
		return fmt.Errorf("consume: %w", err)
	}
	c.run(ctx)
	return nil
}

// consumption is one run of Consume. All but running belongs to its goroutine.
type consumption struct {
	q   *Queue
	cfg ConsumerConfig
	log zerolog.Logger

	lanes   map[string]*membership
	sources []*source // of all lanes
	failed  map[string]time.Time
	sweep   sweep
	// nextSurvey is when the stream is asked again which places have jobs.
	nextSurvey time.Time
	// tenants says in which turn each was last served.
	tenants map[string]uint64
	turn    uint64
	ripened int // the place in sources of the last that was ripened

	wake    chan struct{}
	changed <-chan struct{}
	tick    *time.Timer
	echo    *time.Timer
	busy    chan struct{} // closed
	pulls   *puller
	// late are messages that came when another answer was waited for, or none.
	late []*message

	// places holds a token for each handler that does not acknowledge yet, slots
	// for each that has not left.
	places, slots chan struct{}
	handlers      sync.WaitGroup

	// mu guards running, the jobs that have a handler.
	mu      sync.Mutex
	running map[job.ID]bool
}

func (c *consumption) run(ctx context.Context) {
	changed, unlisten := c.q.lanes.listen()
	defer unlisten()
	defer c.q.flush()
	defer c.handlers.Wait()
	defer c.pulls.close()
	defer c.returnLate()
	defer c.leaveAll()
	c.changed, c.tick, c.echo = changed, time.NewTimer(0), time.NewTimer(time.Hour)
	defer c.tick.Stop()
	defer c.echo.Stop()
	for {
		if !c.take(ctx, c.places) || !c.take(ctx, c.slots) {
			return
		}
		msg := c.claim(ctx)
		if msg == nil {
			return
		}
		c.handlers.Go(func() {
			depart := sync.OnceFunc(func() { <-c.places })
			defer depart()
			leave := sync.OnceFunc(func() { <-c.slots })
			defer leave()
			c.handle(msg, leave, depart)
		})
	}
}

// take puts a token in, unless ctx ends before there is room. A message that
// comes meanwhile would wait at a busy worker.
func (c *consumption) take(ctx context.Context, tokens chan<- struct{}) bool {
	select {
	case tokens <- struct{}{}:
		return true
	default:
	}
	for {
		c.returnLate()
		select {
		case tokens <- struct{}{}:
			return true
		case answer := <-c.pulls.answers:
			c.keep(answer)
		case <-ctx.Done():
			return false
		}
	}
}

// claim returns the next message, or nil when ctx has ended.
func (c *consumption) claim(ctx context.Context) *message {
	for ctx.Err() == nil {
		if c.anyReady() {
			c.attend(ctx, c.busy)
		} else {
			c.attend(ctx, nil)
		}
		if msg := c.try(ctx); msg != nil {
			return msg
		}
	}
	return nil
}

// attend does one thing that is due besides fetching. It waits for one unless
// busy is closed; then, of what is due, chance decides, which is fair.
func (c *consumption) attend(ctx context.Context, busy <-chan struct{}) {
	select {
	case <-c.wake: // who is new has waited longest
		c.admit(ctx)
	default:
	}
	select {
	case <-busy:
	case <-ctx.Done():
	case <-c.wake:
		c.admit(ctx)
	case <-c.changed:
		c.rejoin(ctx)
	case <-c.tick.C:
		c.rejoin(ctx)
		c.ripen()
		c.tick.Reset(tickMin + rand.N(tickMax-tickMin))
	case <-c.echo.C:
		c.resound()
	case answer := <-c.pulls.answers:
		c.keep(answer)
	}
}

// try takes what came late, or looks into one lane that may have a job.
func (c *consumption) try(ctx context.Context) *message {
	if msg := c.nextLate(); msg != nil {
		return c.claimed(ctx, msg, c.ready())
	}
	if !c.q.nc.IsConnected() {
		// A request that is sent on reconnect would be answered to nobody,
		// and the job would wait out AckWait.
		c.calm()
		return nil
	}
	ready := c.ready()
	priority, ok := c.sweep.next(ready)
	if !ok {
		return nil
	}
	s := c.inTurn(priority)
	msg, err := c.fetch(s)
	if err != nil {
		c.log.Debug().Err(err).Msg("job could not be asked for")
	}
	if msg == nil {
		if s.empty() {
			c.echo.Reset(echoAfter)
		}
		return nil
	}
	return c.claimed(ctx, msg, ready)
}

// claimed returns a message that was got when these were ready, unless ctx has
// ended meanwhile.
func (c *consumption) claimed(ctx context.Context, msg *message, ready eager) *message {
	c.charge(msg, ready)
	if ctx.Err() != nil {
		c.giveBack(msg)
		return nil
	}
	return msg
}

// rejoin leaves the lanes that no offer satisfies any more, joins those that
// one does, and surveys them when it is time.
func (c *consumption) rejoin(ctx context.Context) {
	if !c.q.nc.IsConnected() {
		return
	}
	offers := c.cfg.Offers()
	wanted := map[string]bool{}
	for _, r := range c.q.lanes.all() {
		if slices.ContainsFunc(offers, func(o job.Offer) bool { return r.Unmet(o) == "" }) {
			wanted[r.Lane()] = true
		}
	}
	for name, m := range c.lanes {
		if !wanted[name] {
			c.leave(name, m)
		}
	}
	joined := false
	for name := range wanted {
		if c.lanes[name] == nil && time.Since(c.failed[name]) > rejoinAfter {
			joined = c.join(name) || joined
		}
	}
	c.dropBroken()
	c.arrange()
	if joined || !time.Now().Before(c.nextSurvey) {
		c.survey(ctx)
		c.forget()
	}
}

// dropBroken gives up sources whose consumer is gone, to be opened anew.
func (c *consumption) dropBroken() {
	for _, s := range c.sources {
		if m := c.lanes[s.place.lane]; m != nil && s.broken {
			m.drop(s.place)
			m.note(s.place)
			c.rouse()
		}
	}
}

func (c *consumption) join(name string) bool {
	m, err := c.q.join(name, c.wake)
	if err != nil {
		c.failed[name] = time.Now()
		c.log.Warn().Err(err).Str("lane", name).Msg("lane could not be joined, trying again")
		return false
	}
	delete(c.failed, name)
	c.lanes[name] = m
	c.log.Info().Str("lane", name).Msg("joined lane")
	return true
}

func (c *consumption) leave(name string, m *membership) {
	if err := m.leave(); err != nil {
		c.log.Debug().Err(err).Str("lane", name).Msg("bell could not be unsubscribed")
	}
	delete(c.lanes, name)
	c.log.Info().Str("lane", name).Msg("left lane")
}

func (c *consumption) leaveAll() {
	for name, m := range c.lanes {
		c.leave(name, m)
	}
}
