package broker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// The pause before a further try is taken at random from 0 to a bound that
// doubles, so that those who failed together do not come back together.
const (
	firstRetry = 50 * time.Millisecond
	maxRetry   = 5 * time.Second
)

// persevere gets an answer as the rule says: from the cache, or by as many
// tries as the call's time and the breaker allow.
func (f *flight) persevere(calls context.Context, r Request) exchanged {
	if f.turn.stored != nil {
		return f.recalled()
	}
	for {
		f.turn.tries++
		end := f.askOnce(calls, r)
		if f.turn.pass != nil {
			f.turn.pass(verdict(end, context.Cause(calls)))
		}
		switch {
		case end.pending == nil && end.no == nil:
			f.keep(end.answer.Body)
			return end
		case end.pending != nil || !f.again(end.no) || !f.pause(calls, r.Deadline):
			return end
		}
		end.forget()
	}
}

// again reports whether the rule has a call that failed so made again. One
// that timed out has no time left.
func (f *flight) again(no *refusal) bool {
	return f.turn.tries <= f.rule.Retries && (f.tool.Idempotent || f.tool.ReadOnly) &&
		(no.code == CodeNoProvider || no.code == CodeProviderError) && no.retryableBy(f.tool)
}

// pause waits for the next try, which takes its turn in the rate. It returns
// false when there is none before the deadline.
func (f *flight) pause(calls context.Context, deadline time.Time) bool {
	bound := min(firstRetry<<(f.turn.tries-1), maxRetry)
	wait := rand.N(bound)
	if time.Until(deadline) <= wait {
		return false
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-calls.Done():
		if errors.Is(context.Cause(calls), errToolTime) {
			f.s.limited()
		}
		return false
	}
	ctx, cancel := context.WithDeadline(calls, deadline)
	defer cancel()
	return f.pace(ctx) == nil && f.passBreaker() == nil
}

// story is what the call's record says beside an answer or failure: how often
// it was tried, or where the answer is from.
func (f *flight) story() string {
	switch {
	case f.turn == nil:
	case f.turn.stored != nil:
		return f.turn.stored.provenance()
	case f.turn.tries > 1:
		return fmt.Sprintf("%d tries", f.turn.tries)
	}
	return ""
}
