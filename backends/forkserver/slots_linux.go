package forkserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"airlock/backends"
)

// kind is what a slot's guests have in common: their template and whose jobs
// they run.
type kind struct{ template, tenant string }

// slots keeps templates and the slots that wait for a guest.
type slots struct {
	ready *ready

	mu        sync.Mutex         // guards all below
	templates map[kind]*template // the one of each kind that new slots are forked off
	living    map[*template]struct{}
	idle      []*slot // the one that has waited longest first
	starting  map[kind]*starting
	closed    bool
	work      sync.WaitGroup

	// closing is closed when closed is set.
	closing chan struct{}
}

// maxIdle is how many slots wait at most. Where guests are parked hardly one
// does: it holds the next guest.
const maxIdle = 16

func newSlots(r *ready) *slots {
	return &slots{
		ready: r, templates: map[kind]*template{}, living: map[*template]struct{}{}, starting: map[kind]*starting{},
		closing: make(chan struct{}),
	}
}

// kindOf is the kind of slot that a task's guest runs in.
func kindOf(task backends.Task) kind { return kind{task.Template, task.Tenant} }

// templateOf is the kind by which templates are told apart.
func (r *ready) templateOf(k kind) kind {
	if !r.config.TenantTemplates {
		k.tenant = ""
	}
	return k
}

// take returns a slot that waits, or a new one. The error wraps errNotForked
// where another attempt may do.
func (p *slots) take(ctx context.Context, k kind) (*slot, error) {
	if s := p.waiting(k); s != nil {
		return s, nil
	}
	t, err := p.template(ctx, p.ready.templateOf(k))
	if err != nil {
		return nil, err
	}
	s, err := p.ready.newSlot(t, k)
	if err != nil {
		if errors.Is(err, errBadTemplate) {
			p.discard(t)
		}
		p.leave(t)
		return nil, fmt.Errorf("%w: %w", errNotForked, err)
	}
	return s, nil
}

// waiting takes the slot of the kind that was used last, whose memory is the
// warmest.
func (p *slots) waiting(k kind) *slot {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, s := range slices.Backward(p.idle) {
		if s.kind == k && !p.stale(s) && !s.ended() {
			p.idle = slices.Delete(p.idle, i, i+1)
			return s
		}
	}
	return nil
}

// stale reports whether a slot is to be used no more. p.mu is held.
func (p *slots) stale(s *slot) bool {
	c := p.ready.config
	return p.closed || s.template.retired || s.template.ended() || s.guests >= c.MaxGuests || time.Since(s.born) > c.MaxAge
}

// give takes a slot back that may be used again, or ends it.
func (p *slots) give(s *slot, sound bool) error {
	p.mu.Lock()
	s.template.guests++
	var old []*slot
	if sound && !p.stale(s) {
		p.idle = append(p.idle, s)
	} else {
		old = append(old, s)
	}
	p.idle = slices.DeleteFunc(p.idle, func(s *slot) bool {
		stale := p.stale(s)
		if stale {
			old = append(old, s)
		}
		return stale
	})
	if len(p.idle) > maxIdle {
		old = append(old, p.idle[0])
		p.idle = slices.Delete(p.idle, 0, 1)
	}
	p.mu.Unlock()
	var errs []error
	for _, s := range old {
		errs = append(errs, p.drop(s))
	}
	return errors.Join(errs...)
}

// drop ends a slot.
func (p *slots) drop(s *slot) error {
	err := s.end()
	p.leave(s.template)
	if err != nil {
		return fmt.Errorf("end slot: %w", err)
	}
	return nil
}

// leave gives up a place at a template, which ends with the last one if it is
// retired.
func (p *slots) leave(t *template) {
	p.mu.Lock()
	t.slots--
	over := t.slots == 0 && t.retired
	p.mu.Unlock()
	if over {
		p.forget(t)
	}
}

func (p *slots) forget(t *template) {
	t.end()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.living, t)
}

// close ends everything. Nobody uses a slot any more, nor will.
func (p *slots) close() error {
	p.mu.Lock()
	p.closed = true
	close(p.closing)
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	var errs []error
	for _, s := range idle {
		errs = append(errs, p.drop(s))
	}
	p.work.Wait()
	for t := range p.living {
		t.end()
	}
	return errors.Join(errs...)
}
