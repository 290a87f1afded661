package gateway

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// tenants bounds what each tenant asks for, so that none takes the gateway
// from the others.
type tenants struct {
	rate        float64
	concurrency int

	mu    sync.Mutex
	known map[string]*tenant // guarded by mu
}

type tenant struct {
	limiter *rate.Limiter
	busy    int // guarded by tenants.mu
	last    time.Time
}

// maxTenants bounds those that are remembered.
const maxTenants = 10_000

// enter lets a request of the tenant in, or says when to come again. leave is
// to be called when it is done.
func (t *tenants) enter(name string) (leave func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	here := t.get(name)
	if here.busy >= t.concurrency {
		return nil, problemf(CodeRateLimited, "%d requests of this tenant are under way, which is the most", here.busy).after(shortPause)
	}
	now := time.Now()
	if turn := here.limiter.ReserveN(now, 1); turn.DelayFrom(now) > 0 {
		wait := turn.DelayFrom(now)
		turn.CancelAt(now)
		return nil, problemf(CodeRateLimited, "this tenant asks more than %g times a second", t.rate).after(wait)
	}
	here.busy++
	here.last = now
	return func() { t.leave(here) }, nil
}

func (t *tenants) leave(here *tenant) {
	t.mu.Lock()
	defer t.mu.Unlock()
	here.busy--
}

func (t *tenants) get(name string) *tenant {
	if here, ok := t.known[name]; ok {
		return here
	}
	if t.known == nil {
		t.known = map[string]*tenant{}
	}
	if len(t.known) >= maxTenants {
		t.forget()
	}
	here := &tenant{limiter: rate.NewLimiter(rate.Limit(t.rate), max(1, int(t.rate)))}
	t.known[name] = here
	return here
}

// forget drops those who have nothing under way and came long ago.
func (t *tenants) forget() {
	for name, here := range t.known {
		if here.busy == 0 && time.Since(here.last) > time.Minute {
			delete(t.known, name)
		}
	}
}
