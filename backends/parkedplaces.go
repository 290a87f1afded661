package backends

import "time"

// kind is a class that guests are parked for or jobs asked for.
type kind struct {
	class
	// asked counts the recent jobs, last is when the last of them came, as
	// its number. rest stands for jobs that nobody asked for yet.
	asked int
	last  int
	rest  float64
	// have counts the guests that have a place and are to keep it, starting
	// those that have not greeted, with a place or a job.
	have, starting int
	// failures counts guests in a row that ended before their jobs came.
	// None is started before retry.
	failures      int
	failed, retry time.Time
}

const (
	firstPause = time.Second
	maxPause   = 30 * time.Second
)

// fail notes the end of a guest without a job; first says that it is the
// first in a row. One that was started before the last failure is not another.
func (k *kind) fail(born, now time.Time) (first bool) {
	if k.failures > 0 && !born.After(k.failed) {
		return false
	}
	pause := min(firstPause<<min(k.failures, 10), maxPause)
	k.failures++
	k.failed, k.retry = now, now.Add(pause)
	return k.failures == 1
}

// recover notes a guest that was good; again says that those before were not.
func (k *kind) recover(born time.Time) (again bool) {
	if k.failures == 0 || !born.After(k.failed) {
		return false
	}
	k.failures = 0
	return true
}

// bid is what one more guest is worth to the class, held what one of those
// that it has is: the recent jobs for each.
func (k *kind) bid() float64  { return (float64(k.asked) + k.rest) / float64(k.have+1) }
func (k *kind) held() float64 { return (float64(k.asked) + k.rest) / float64(k.have) }

// places shares the places of parked guests out among the classes.
type places struct {
	window int
	kinds  map[class]*kind
	base   *kind
	recent []asked // oldest first
	count  int
}

// asked is a job that came.
type asked struct {
	kind *kind
	at   time.Time
}

const (
	// perPlace is how many recent jobs are counted for each place, and
	// minWindow for few places. With fewer, a random mix of jobs would have
	// guests ended and started for nothing; with more, a change is seen late.
	perPlace  = 4
	minWindow = 8
	// forgotten is when a job no longer counts.
	forgotten = time.Minute
	// margin is by how much a class must need a place more than one that has
	// it. Starting a guest costs more than a wait that might not come.
	margin = 1.5
	// restWeight lets the default class have what no job asked for.
	restWeight = 0.001
)

func newPlaces(size int, base class) *places {
	p := &places{window: max(minWindow, perPlace*size), kinds: map[class]*kind{}}
	p.base = p.of(base)
	p.base.rest = restWeight
	return p
}

// of is the kind of a class.
func (p *places) of(c class) *kind {
	k := p.kinds[c]
	if k == nil {
		k = &kind{class: c}
		p.kinds[c] = k
	}
	return k
}

// note counts a job.
func (p *places) note(k *kind, now time.Time) {
	p.count++
	k.asked++
	k.last = p.count
	p.recent = append(p.recent, asked{k, now})
	if len(p.recent) > p.window {
		p.forget()
	}
}

// forget forgets the oldest job, and its kind if nothing is left of it.
func (p *places) forget() {
	k := p.recent[0].kind
	p.recent = p.recent[1:]
	k.asked--
	p.drop(k)
}

// drop is for kinds that may be over.
func (p *places) drop(k *kind) {
	if k != p.base && k.asked == 0 && k.have == 0 && k.starting == 0 {
		delete(p.kinds, k.class)
	}
}

// expire forgets old jobs, and kinds of which nothing is left.
func (p *places) expire(now time.Time) {
	for len(p.recent) > 0 && now.Sub(p.recent[0].at) >= forgotten {
		p.forget()
	}
	for _, k := range p.kinds {
		p.drop(k)
	}
}

// next is the kind that needs a guest most, or nil. Of those that have failed
// one guest at a time is tried.
func (p *places) next(now time.Time) *kind {
	var best *kind
	for _, k := range p.kinds {
		switch {
		case k != p.base && k.have >= k.asked:
		case k.failures > 0 && (k.starting > 0 || now.Before(k.retry)):
		case best == nil || k.bid() > best.bid() || k.bid() == best.bid() && k.last > best.last:
			best = k
		}
	}
	return best
}

// loser is the kind that gives up a place to another, or nil: the one that
// needs it least, and of several the one that was asked for least recently.
func (p *places) loser(to *kind) *kind {
	if to == nil {
		return nil
	}
	var least *kind
	for _, k := range p.kinds {
		if k == to || k.have == 0 {
			continue
		}
		if least == nil || k.held() < least.held() || k.held() == least.held() && k.last < least.last {
			least = k
		}
	}
	if least == nil || to.bid() <= margin*least.held() {
		return nil
	}
	return least
}
