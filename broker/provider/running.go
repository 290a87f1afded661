package provider

import (
	"context"
	"sync"
)

// remembered is how many cancelled calls are kept that are not being handled:
// they may still wait here for a free handler, or be another instance's.
const remembered = 4096

// running are the calls that are being handled, by their ids.
type running struct {
	mu     sync.Mutex
	open   map[string]context.CancelCauseFunc // guarded by mu, as all below
	gone   map[string]bool
	recent []string // the members of gone, a ring
	next   int
}

func newRunning() *running {
	return &running{open: map[string]context.CancelCauseFunc{}, gone: map[string]bool{}}
}

// begin returns a context that ends with the call. done must be called.
func (r *running) begin(ctx context.Context, id string) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	if id == "" {
		return ctx, func() { cancel(nil) }
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gone[id] {
		cancel(ErrCancelled)
	}
	r.open[id] = cancel
	return ctx, func() {
		cancel(nil)
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.open, id)
	}
}

// cancel ends a call, or one that has not begun yet.
func (r *running) cancel(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if end := r.open[id]; end != nil {
		end(ErrCancelled)
		return
	}
	if r.gone[id] || len(id) > maxID {
		return
	}
	if len(r.recent) < remembered {
		r.recent = append(r.recent, id)
	} else {
		delete(r.gone, r.recent[r.next])
		r.recent[r.next] = id
		r.next = (r.next + 1) % remembered
	}
	r.gone[id] = true
}

// maxID is more than a call's id has.
const maxID = 128
