package backends

import "time"

// calm is how long memory must not have been tight before guests are parked
// again: what they gave up is soon free, and parking them would use it up.
const calm = 30 * time.Second

// giveWay notes whether memory is tight, and ends a guest that stands if it
// is. p.mu is held.
func (p *parked) giveWay(now time.Time, tight bool) {
	was := !p.tight.IsZero()
	switch {
	case tight:
		p.tight = now
		if !was {
			p.cfg.Log.Warn().Int("parked", len(p.guests)).Msg("memory is tight; parked guests give way")
		}
		if g := p.dispensable(); g != nil {
			p.end(g, errUnparked)
		}
	case was && now.Sub(p.tight) >= calm:
		p.tight = time.Time{}
		p.cfg.Log.Info().Msg("memory is no longer tight; guests are parked")
	}
}

// dispensable is the oldest guest that stands, of the class that was asked for
// longest ago; or nil.
func (p *parked) dispensable() *parkedGuest {
	var first *parkedGuest
	for _, g := range p.guests {
		if g.standing() && !g.leaving && (first == nil || g.kind.last < first.kind.last) {
			first = g
		}
	}
	return first
}
