package gateway

import (
	"context"
	"errors"
	"sync"
	"time"

	"airlock/job"
	"airlock/queue"
	"airlock/store"
)

// lookEvery is how often a wait looks into the history: news may be missed.
const lookEvery = 3 * time.Second

// waiters are those who wait for a job to end.
type waiters struct {
	store *store.Store

	mu   sync.Mutex
	byID map[job.ID][]*waiter // guarded by mu
}

type waiter struct {
	tenant string
	id     job.ID
	// news holds the result once it was announced, or nil for one to be
	// looked up.
	news chan *job.Result
}

// heard passes an announcement on to whoever waits for it.
func (w *waiters) heard(a queue.Announcement) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, waiting := range w.byID[a.Job] {
		if waiting.tenant != a.Tenant {
			continue
		}
		r, ok := a.Result()
		if !ok {
			r = nil
		}
		select {
		case waiting.news <- r:
		default: // it has heard already
		}
	}
}

// add begins a wait, before the job is submitted, so that no news is missed.
// done is to be called.
func (w *waiters) add(tenant string, id job.ID) (waiting *waiter, done func()) {
	waiting = &waiter{tenant, id, make(chan *job.Result, 1)}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byID == nil {
		w.byID = map[job.ID][]*waiter{}
	}
	w.byID[id] = append(w.byID[id], waiting)
	return waiting, func() { w.remove(waiting) }
}

func (w *waiters) remove(gone *waiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	rest := w.byID[gone.id][:0]
	for _, waiting := range w.byID[gone.id] {
		if waiting != gone {
			rest = append(rest, waiting)
		}
	}
	if len(rest) == 0 {
		delete(w.byID, gone.id)
		return
	}
	w.byID[gone.id] = rest
}

// await returns the job's result, or nil when ctx has ended before it, or the
// gateway leaves.
func (g *Gateway) await(ctx context.Context, waiting *waiter) (*job.Result, error) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case r := <-waiting.news:
			if r != nil {
				return r, nil
			}
		case <-tick.C:
		case <-ctx.Done():
			return nil, nil
		case <-g.leaving:
			return nil, nil
		}
		r, err := g.cfg.Store.Result(ctx, waiting.tenant, waiting.id)
		switch {
		case err == nil:
			return r, nil
		case ctx.Err() != nil:
			return nil, nil
		case !errors.Is(err, store.ErrNotFound) && !errors.Is(err, job.ErrUnreachable):
			return nil, err
		}
	}
}
