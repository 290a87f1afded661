package guestproc

import (
	"context"
	"sync"

	"airlock/backends"
)

// Gate lets guests in until it is closed. The zero value is open.
type Gate struct {
	mu     sync.Mutex
	closed bool                                  // guarded by mu
	inside map[*context.CancelCauseFunc]struct{} // guarded by mu
	guests sync.WaitGroup
}

// Enter gives a guest's context, which also ends when the gate closes, and
// the function to leave by. After Close the error is backends.ErrClosed.
func (g *Gate) Enter(ctx context.Context) (context.Context, func(), error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, nil, backends.ErrClosed
	}
	ctx, cancel := context.WithCancelCause(ctx)
	if g.inside == nil {
		g.inside = map[*context.CancelCauseFunc]struct{}{}
	}
	key := &cancel
	g.inside[key] = struct{}{}
	g.guests.Add(1)
	return ctx, func() {
		g.mu.Lock()
		delete(g.inside, key)
		g.mu.Unlock()
		cancel(nil)
		g.guests.Done()
	}, nil
}

// Close ends the guests inside, waits until they have left and lets no other
// in. It may be called twice; each call waits.
func (g *Gate) Close() {
	g.mu.Lock()
	g.closed = true
	for cancel := range g.inside {
		(*cancel)(backends.ErrClosed)
	}
	g.mu.Unlock()
	g.guests.Wait()
}
