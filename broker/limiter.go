package broker

import (
	"context"
	"errors"
	"sync"
	"time"

	"airlock/broker/policy"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"
)

// limiters bound what the conversations of one worker do together. What a rule
// says is part of the key: after a change of policy, those that began before
// it share the old bound, and the others the new one.
type limiters struct {
	mu    sync.Mutex
	gates map[gateKey]*gate         // guarded by mu, as all below
	rates map[rateKey]*rate.Limiter //
	prune int                       // the number of rates at which to look for idle ones
}

type gateKey struct {
	tenant string
	tool   toolName
	size   int
}

// gate lets a number of calls in at once. It goes with the last of them.
type gate struct {
	places *semaphore.Weighted
	users  int
}

type rateKey struct {
	tenant string
	tool   toolName
	rate   policy.Rate
}

// manyRates is how many limiters may lie about idle.
const manyRates = 1024

// enter waits for a place, which leave gives back.
func (l *limiters) enter(ctx context.Context, key gateKey) (leave func(), err error) {
	l.mu.Lock()
	g := l.gates[key]
	if g == nil {
		if l.gates == nil {
			l.gates = map[gateKey]*gate{}
		}
		g = &gate{places: semaphore.NewWeighted(int64(key.size))}
		l.gates[key] = g
	}
	g.users++
	l.mu.Unlock()
	if err := g.places.Acquire(ctx, 1); err != nil {
		l.dismiss(key, g)
		return nil, err
	}
	return func() {
		g.places.Release(1)
		l.dismiss(key, g)
	}, nil
}

func (l *limiters) dismiss(key gateKey, g *gate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if g.users--; g.users == 0 {
		delete(l.gates, key)
	}
}

// pace waits until the rate has room for a call. It does not begin to wait
// beyond the deadline of ctx.
func (l *limiters) pace(ctx context.Context, key rateKey) error {
	l.mu.Lock()
	limiter := l.rates[key]
	if limiter == nil {
		l.forgetIdle()
		limiter = rate.NewLimiter(rate.Limit(key.rate.PerSecond), max(1, key.rate.Burst))
		l.rates[key] = limiter
	}
	l.mu.Unlock()
	return limiter.Wait(ctx)
}

// forgetIdle is called with mu held. A limiter that has its whole burst is as
// good as a new one.
func (l *limiters) forgetIdle() {
	if l.rates == nil {
		l.rates, l.prune = map[rateKey]*rate.Limiter{}, manyRates
	}
	if len(l.rates) < l.prune {
		return
	}
	now := time.Now()
	for key, limiter := range l.rates {
		if limiter.TokensAt(now) >= float64(limiter.Burst()) {
			delete(l.rates, key)
		}
	}
	l.prune = max(manyRates, 2*len(l.rates))
}

// turn is how a call that a rule holds back came to its turn.
type turn struct {
	// leave gives back the place among calls at once.
	leave func()
	// pass tells the breaker what became of the next try.
	pass func(error)
	// stored is the cached answer that serves the call, key where it is kept.
	stored *cached
	key    cacheKey
	tries  int
}

// wait holds the call until its turn. It returns how long that took.
func (f *flight) wait(calls context.Context, timeout time.Duration) (waited time.Duration, no *refusal) {
	if f.recall() {
		return 0, nil
	}
	began := time.Now()
	if f.rule.Concurrency > 0 || f.rule.Rate.PerSecond > 0 {
		if no := f.queue(calls, timeout); no != nil {
			return 0, no
		}
	}
	return time.Since(began), f.passBreaker()
}

// queue takes a place first and then waits for the rate: what has its place in
// the rate leaves at once.
func (f *flight) queue(calls context.Context, timeout time.Duration) *refusal {
	ctx, cancel := context.WithTimeoutCause(calls, timeout, errCallTimeout)
	defer cancel()
	var err error
	if n := f.rule.Concurrency; n > 0 {
		f.turn.leave, err = f.s.b.limiters.enter(ctx, gateKey{f.s.policy.tenant, f.toolName(), n})
	}
	if err == nil {
		err = f.pace(ctx)
	}
	if err == nil {
		return nil
	}
	cause := context.Cause(calls)
	if cause == nil {
		return refusef(CodeRateLimited, "the operator's policy makes calls of %s.%s wait, and this one's turn does not come within %s",
			f.tool.Namespace, f.tool.Name, timeout.Round(time.Millisecond))
	}
	if errors.Is(cause, errToolTime) {
		f.s.limited()
	}
	return ending(cause)
}

func (f *flight) pace(ctx context.Context) error {
	if f.rule.Rate.PerSecond == 0 {
		return nil
	}
	return f.s.b.limiters.pace(ctx, rateKey{f.s.policy.tenant, f.toolName(), f.rule.Rate})
}

// leave ends what wait began. It may be called twice.
func (f *flight) leave() {
	if f.turn == nil {
		return
	}
	if f.turn.pass != nil {
		f.turn.pass(errNoVerdict)
	}
	if f.turn.leave != nil {
		f.turn.leave()
		f.turn.leave = nil
	}
}
