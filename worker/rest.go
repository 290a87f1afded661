package worker

import (
	"context"
	"fmt"
	"time"
)

// maxRow is how many attempts may fail without one that does not before a
// backend rests: jobs that cannot run anywhere do fail here and there. When the
// first that it is given after a rest fails too, it rests for twice as long, up
// to a minute.
const maxRow = 5

// count notes how an attempt went at a candidate. If it has to rest for that,
// tired is what is to be noted of it.
func (p *Prober) count(i int, failed bool) (tired probed, is bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &p.states[i]
	switch {
	case !failed:
		s.row, s.rests = 0, 0
	case s.box != nil:
		s.row++
	}
	if s.box == nil || s.row < maxRow {
		return probed{}, false
	}
	rest := pauseAfter(s.rests + 1)
	why := fmt.Sprintf("it failed %d jobs in a row, and is probed again in %s", s.row, rest)
	return probed{reason: why, row: s.row, rests: s.rests + 1, rested: time.Now().Add(rest)}, true
}

// after is what is known once a probe, or a row of failures, says s. That a
// probe went well does not end a rest, and is no proof that jobs run: after a
// row of failures one more is enough.
func (s probed) after(before probed, now time.Time) probed {
	switch {
	case s.box == nil:
		return s
	case now.Before(before.rested):
		return before
	}
	s.row, s.rests = min(before.row, maxRow-1), before.rests
	return s
}

// rest waits until the candidate may be probed. It reports false when ctx
// ended.
func (p *Prober) rest(ctx context.Context, i int) bool {
	p.mu.Lock()
	rest := time.NewTimer(time.Until(p.states[i].rested))
	p.mu.Unlock()
	defer rest.Stop()
	select {
	case <-rest.C:
		return true
	case <-ctx.Done():
		return false
	}
}
