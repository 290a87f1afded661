package guestproc

import "sync"

// Prepared is what a backend finds out about its host once and then keeps.
// The zero value is ready for use.
type Prepared[T any] struct {
	mu  sync.Mutex
	now *T   // guarded by mu
	all []*T // guarded by mu
}

// Get returns what is kept, or makes it.
func (p *Prepared[T]) Get(make func() (*T, error)) (*T, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now != nil {
		return p.now, nil
	}
	made, err := make()
	if err != nil {
		return nil, err
	}
	p.now, p.all = made, append(p.all, made)
	return made, nil
}

// Forget makes the next Get make it anew, since what was found is no longer
// true: a host may have had its interpreter upgraded. Guests that still run
// keep what they were started with.
func (p *Prepared[T]) Forget(old *T) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now == old {
		p.now = nil
	}
}

// Drain returns all that were ever made, for the last one to clean up. It is
// called when nobody calls Get any more.
func (p *Prepared[T]) Drain() []*T {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.all
	p.now, p.all = nil, nil
	return all
}
