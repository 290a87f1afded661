package backends

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

var (
	// errUnparked is the cause that ends a parked guest nobody needs.
	errUnparked = errors.New("parked guest is not needed")
	errSlow     = errors.New("guest does not greet")
)

const (
	// round is how often the parked guests are looked after.
	round = time.Second
	// maxStart is how long a guest may take from its start to its greeting.
	maxStart = time.Minute
)

// take removes the oldest guest of a kind that stands, else that starts, or
// returns nil.
func (p *parked) take(k *kind) *parkedGuest {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.oldest(k)
	if k == nil || p.closed || at < 0 {
		return nil
	}
	g := p.guests[at]
	p.guests = slices.Delete(p.guests, at, at+1)
	k.have--
	return g
}

// oldest is where the guest of a kind is that has stood longest, else one that
// starts, else -1.
func (p *parked) oldest(k *kind) int {
	at := slices.IndexFunc(p.guests, func(g *parkedGuest) bool { return g.kind == k && !g.leaving && g.standing() })
	if at < 0 {
		at = slices.IndexFunc(p.guests, func(g *parkedGuest) bool { return g.kind == k && !g.leaving })
	}
	return at
}

// tend looks after the guests until Close.
func (p *parked) tend() {
	tick := time.NewTicker(round)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			p.review(now, p.cfg.Tight != nil && p.cfg.Tight())
		case <-p.closing:
			return
		}
	}
}

// review ends guests that are too old or do not start, and sees which classes
// work again and which are asked for no more.
func (p *parked) review(now time.Time, tight bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.giveWay(now, tight)
	p.places.expire(now)
	ended := 0
	for _, g := range p.guests {
		switch age := now.Sub(g.born); {
		case g.leaving:
		case !g.standing() && age > maxStart:
			p.failed(g, errSlow)
			p.end(g, errSlow)
		case age > p.cfg.MaxAge && ended < p.cfg.Starts:
			ended++
			p.end(g, errUnparked)
		case g.standing() && now.Sub(g.stood) >= round:
			p.worked(g)
		}
	}
	p.fill()
}

// fill starts guests until all places are taken, or makes room for one.
// p.mu is held, as for all that follow.
func (p *parked) fill() {
	if !p.probed || p.closed || !p.tight.IsZero() {
		return
	}
	for p.starting < p.cfg.Starts && (p.due || p.running+p.starting < p.cfg.Starts) {
		k := p.places.next(time.Now())
		switch {
		case k != nil && len(p.guests) < p.cfg.Size:
			p.start(k)
			continue
		case k != nil && slices.ContainsFunc(p.guests, func(g *parkedGuest) bool { return g.leaving }):
			return // its place is free soon
		}
		loser := p.places.loser(k)
		if loser == nil {
			p.due = false
			return
		}
		p.end(p.guests[p.oldest(loser)], errUnparked)
	}
}

func (p *parked) start(k *kind) {
	g := newParkedGuest(k)
	g.greeted = func() { p.stands(g) }
	p.guests = append(p.guests, g)
	p.living[g] = struct{}{}
	p.starting++
	k.starting++
	k.have++
	task := k.task()
	task.Enforce = p.can.Limits
	p.work.Go(func() {
		g.run(p.Backend, task)
		p.gone(g)
	})
}

// end ends a guest that has a place, which it keeps until it is gone.
func (p *parked) end(g *parkedGuest, cause error) {
	g.leaving = true
	g.kind.have--
	g.cancel(cause)
}

func (p *parked) endAll(cause error) {
	for _, g := range p.guests {
		if !g.leaving {
			p.end(g, cause)
		}
	}
}

// stands notes a guest's greeting.
func (p *parked) stands(g *parkedGuest) {
	p.mu.Lock()
	defer p.mu.Unlock()
	g.stood = time.Now()
	p.starting--
	g.kind.starting--
	p.fill()
}

// gone notes a guest's end.
func (p *parked) gone(g *parkedGuest) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.living, g)
	if !g.standing() {
		p.starting--
		g.kind.starting--
	}
	if at := slices.Index(p.guests, g); at >= 0 {
		p.guests = slices.Delete(p.guests, at, at+1)
		if !g.leaving {
			g.kind.have--
		}
	}
	switch {
	case p.closed:
	case g.told():
		p.worked(g)
	case errors.Is(g.refused, ErrUnenforceable): // of that one job
	case g.refused != nil:
		p.failed(g, g.refused)
	case g.err != nil:
		p.failed(g, g.err)
	case !g.leaving:
		p.failed(g, fmt.Errorf("guest %s without a job", g.outcome.Cause))
	}
	p.fill()
}

// failed notes that a guest ended before its job came.
func (p *parked) failed(g *parkedGuest, err error) {
	if first := g.kind.fail(g.born, time.Now()); first {
		p.cfg.Log.Warn().Err(err).Object("class", g.kind.class).
			Msg("parked guest ended before its job came; trying again")
	}
}

// worked notes that a guest stood for a while or got its job.
func (p *parked) worked(g *parkedGuest) {
	if again := g.kind.recover(g.born); again {
		p.cfg.Log.Info().Object("class", g.kind.class).Msg("guests are parked again")
	}
}
