package provider

import (
	"context"
	"math"

	"golang.org/x/time/rate"
)

// gate holds one tool's calls to its own bounds. A nil part bounds nothing.
type gate struct {
	slots chan struct{}
	rate  *rate.Limiter
}

func newGate(t *Tool) gate {
	var g gate
	if t.MaxParallel > 0 {
		g.slots = make(chan struct{}, t.MaxParallel)
	}
	if t.MaxRate > 0 {
		g.rate = rate.NewLimiter(rate.Limit(t.MaxRate), int(math.Ceil(t.MaxRate)))
	}
	return g
}

// enter waits until the call may begin. What it lets in must leave.
func (g gate) enter(ctx context.Context) error {
	if g.slots != nil {
		select {
		case g.slots <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if g.rate == nil {
		return nil
	}
	if err := g.rate.Wait(ctx); err != nil {
		g.leave()
		return context.DeadlineExceeded // also one that would pass while waiting
	}
	return nil
}

func (g gate) leave() {
	if g.slots != nil {
		<-g.slots
	}
}
