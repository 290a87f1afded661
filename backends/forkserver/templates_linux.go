package forkserver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"airlock/backends"
	"airlock/job"
)

// maxTemplates is how many kinds of templates are kept: tenants come and go.
const maxTemplates = 16

// retryTime is how long an old template goes on when no other could be started.
const retryTime = time.Minute

// starting is a template on its way. err is set when done is closed.
type starting struct {
	done chan struct{}
	err  error
}

// template returns the template of a kind, with a place at it taken that leave
// gives up. One that is old is used until another is there.
func (p *slots) template(ctx context.Context, k kind) (*template, error) {
	for range tries {
		t, coming, err := p.current(k)
		if t != nil || err != nil {
			return t, err
		}
		select {
		case <-coming.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if coming.err != nil {
			return nil, coming.err
		}
	}
	return nil, errors.New("templates end as soon as they are there")
}

// current is the template of a kind with a place taken, or the one that comes.
func (p *slots) current(k kind) (*template, *starting, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil, backends.ErrClosed
	}
	t := p.templates[k]
	alive := t != nil && !t.ended()
	if !alive || p.old(t) {
		p.start(k)
	}
	if !alive {
		return nil, p.starting[k], nil
	}
	t.slots++
	return t, nil, nil
}

// slotsPerTemplate says how many guests a template has: as many as so many
// slots.
const slotsPerTemplate = 100

// old reports whether another template is to take this one's place. p.mu is
// held.
func (p *slots) old(t *template) bool {
	c := p.ready.config
	return time.Since(t.born) > c.MaxAge || t.guests >= c.MaxGuests*slotsPerTemplate
}

// start begins to start a template, unless one is. p.mu is held.
func (p *slots) start(k kind) {
	if p.starting[k] != nil {
		return
	}
	coming := &starting{done: make(chan struct{})}
	p.starting[k] = coming
	p.work.Go(func() {
		defer close(coming.done)
		t, err := p.ready.newTemplate(p.ready.config.Templates[k.template], p.closing)
		coming.err = err
		p.started(k, t, err)
	})
}

// started puts a template in its predecessor's place.
func (p *slots) started(k kind, t *template, err error) {
	p.mu.Lock()
	delete(p.starting, k)
	old := p.templates[k]
	if err != nil {
		if old != nil {
			old.born, old.guests = time.Now().Add(retryTime-p.ready.config.MaxAge), 0
		}
		p.mu.Unlock()
		p.ready.config.Log.Warn().Err(err).Str("template", job.Printable(k.template, 40)).Msg("template not started")
		return
	}
	p.templates[k], p.living[t] = t, struct{}{}
	gone := p.retire(old)
	if len(p.templates) > maxTemplates {
		gone = append(gone, p.retire(p.oldest())...)
	}
	p.mu.Unlock()
	for _, t := range gone {
		p.forget(t)
	}
}

// oldest takes out the template that was started first. p.mu is held.
func (p *slots) oldest() (old *template) {
	var its kind
	for k, t := range p.templates {
		if old == nil || t.born.Before(old.born) {
			old, its = t, k
		}
	}
	delete(p.templates, its)
	return old
}

// retire lets a template end with its last guest, and returns it if that is
// now. p.mu is held.
func (p *slots) retire(t *template) []*template {
	if t == nil {
		return nil
	}
	t.retired = true
	if t.slots == 0 {
		return []*template{t}
	}
	// Those that wait are ended by whoever next gives one back.
	return nil
}

// discard has no more slots forked off a template that its caller has a place
// at. Guests that run go on.
func (p *slots) discard(t *template) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t.retired = true
	maps.DeleteFunc(p.templates, func(_ kind, it *template) bool { return it == t })
}

// rest ends what waits for guests that nobody is expected to ask for.
func (p *slots) rest() error {
	p.mu.Lock()
	var gone []*template
	for _, t := range p.templates {
		gone = append(gone, p.retire(t)...)
	}
	clear(p.templates)
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	var errs []error
	for _, s := range idle {
		errs = append(errs, p.drop(s))
	}
	for _, t := range gone {
		p.forget(t)
	}
	return errors.Join(errs...)
}

// try starts a template of each name and returns those that cannot be.
func (p *slots) try(ctx context.Context) map[string]error {
	wrong := map[string]error{}
	for name := range p.ready.config.Templates {
		t, err := p.template(ctx, kind{template: name})
		if err != nil {
			wrong[name] = fmt.Errorf("template %s: %w", name, err)
			continue
		}
		p.leave(t)
	}
	return wrong
}
