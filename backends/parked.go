package backends

import (
	"cmp"
	"context"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"airlock/job"
)

// ParkedConfig says how guests are parked. Only Size has no default.
type ParkedConfig struct {
	// Size is how many guests stand ready or start, in all; with none, or
	// fewer, the backend is not wrapped. It is what bounds the memory of
	// parked guests, each of which is an idle interpreter.
	Size int
	// MaxAge is how long a guest stands before another takes its place; the
	// default is 10 minutes.
	MaxAge time.Duration
	// Starts is how many guests may be starting at once; the default is the
	// number of processors, beyond which more only take longer.
	Starts int
	// Tight, if there is one, says that the host or the worker is about to run
	// out of memory. It is asked once a second and must be quick.
	Tight func() bool
	Log   zerolog.Logger
}

// defaultMaxAge bounds how stale what a guest was started from can be.
const defaultMaxAge = 10 * time.Minute

// Parked wraps a backend so that guests stand ready before their jobs arrive.
// A parked guest is a fresh one that has been told nothing: it is started like
// any other and waits for its job frame. It serves one job and is gone.
//
// What must be set before a guest starts makes its class: image, network and
// the limits that the kernel holds, unless the backend is a Parker and says
// otherwise. A job takes the oldest guest of its class, or one that is still
// starting; one that finds none, or brings standard input, gets a guest of its
// own. A guest whose channel is a Limiter is given its job's limits first.
//
// While nothing else is asked for, all guests are of the default class: that
// of a job which says nothing. Otherwise the places go to the classes
// by what the last jobs asked for, four per place and none longer ago than a
// minute: the next guest is of the class with the most jobs per guest, never
// with more guests than jobs. A class gives up a standing guest only to one
// that needs the place half as much again as it does itself, or when it was
// not asked for for a minute. So a batch with one odd limit soon has all the
// places, two kinds of jobs that alternate share them, a rare kind among many
// starts its own guests, and kinds that are too many to have a place each do
// not chase each other's guests away.
//
// Guests are started when a Run has returned, so that a slot under load starts
// its next guest while the last result is committed; else only while a
// processor has no guest to run. A class whose guests end before their jobs
// come is tried again one guest at a time, after pauses that grow to 30
// seconds. Close ends all guests and waits for them.
//
// While memory is tight no guest is parked, and one that stands is ended each
// second, of the class that was asked for longest ago; jobs take those that
// are left, and start their own. Guests are parked again when memory was not
// tight for half a minute.
func Parked(b Backend, cfg ParkedConfig) Backend {
	if cfg.Size <= 0 {
		return b
	}
	cfg.MaxAge = cmp.Or(cfg.MaxAge, defaultMaxAge)
	cfg.Starts = cmp.Or(cfg.Starts, runtime.NumCPU())
	classOf := classifier(b)
	base := classOf(Task{Tenant: job.DefaultTenant, Limits: job.DefaultLimits()})
	return &parked{
		Backend: b, cfg: cfg, classOf: classOf, places: newPlaces(cfg.Size, base), closing: make(chan struct{}),
		living: map[*parkedGuest]struct{}{},
	}
}

type parked struct {
	Backend
	cfg     ParkedConfig
	classOf func(Task) class
	// closing ends the goroutine that tends the guests; work waits for it and
	// for all guests.
	closing chan struct{}
	work    sync.WaitGroup

	mu sync.Mutex // guards all below
	// can is what the backend was found to do; nothing is parked before.
	can    Capabilities
	probed bool
	closed bool
	places *places
	// guests have a place each, oldest first: they start, stand ready, or
	// are being ended. living are those and the ones that serve a job.
	guests []*parkedGuest
	living map[*parkedGuest]struct{}
	// starting counts guests that have not greeted, running jobs.
	starting, running int
	// due says that guests may start although jobs run.
	due bool
	// tight is when memory was last found to be; zero says that guests may be
	// parked.
	tight time.Time
}

// Probe implements Backend.
func (p *parked) Probe(ctx context.Context) (Capabilities, error) {
	can, err := p.Backend.Probe(ctx)
	if err != nil {
		return can, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return can, nil
	}
	if !p.probed {
		p.work.Go(p.tend)
	} else if !reflect.DeepEqual(p.can, can) {
		p.endAll(errUnparked) // results would say of them what is no longer so
	}
	p.can, p.probed, p.due = can, true, true
	p.fill()
	return can, nil
}

// Run implements Backend.
func (p *parked) Run(ctx context.Context, task Task) (Outcome, error) {
	kind := p.begin(task)
	defer p.finish()
	for ctx.Err() == nil {
		g := p.take(kind)
		if g == nil {
			break
		}
		if g.accept(ctx, task) {
			return g.end(ctx)
		}
		if ctx.Err() != nil {
			p.giveUp(g, context.Cause(ctx))
			break
		}
		<-g.done
		if g.refused != nil {
			break // a job must not cost the pool one guest after the other
		}
	}
	return p.Backend.Run(ctx, task)
}

// Close implements Backend.
func (p *parked) Close() error {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		close(p.closing)
		p.endAll(errUnparked)
		for g := range p.living {
			g.cancel(ErrClosed)
		}
	}
	p.mu.Unlock()
	p.work.Wait()
	return p.Backend.Close()
}

// begin notes that a job came, and of what kind. It is nil where none of the
// guests can be for it.
func (p *parked) begin(task Task) *kind {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running++
	if !p.fits(task) {
		return nil
	}
	k := p.places.of(p.classOf(task))
	p.places.note(k, time.Now())
	return k
}

// fits reports whether guests can be parked for such tasks.
func (p *parked) fits(task Task) bool {
	if !p.probed || p.closed || len(task.Stdin) > 0 || task.Network && !p.can.Network {
		return false
	}
	if task.Image != "" && !slices.Contains(p.can.Images, task.Image) {
		return false
	}
	for _, limit := range task.Enforce {
		if !slices.Contains(p.can.Limits, limit) {
			return false
		}
	}
	return true
}

// finish notes that a job is over.
func (p *parked) finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running--
	p.due = true
	p.fill()
}

// giveUp ends a guest whose job ended before the guest heard of it.
func (p *parked) giveUp(g *parkedGuest, cause error) {
	p.mu.Lock()
	g.leaving = true
	p.mu.Unlock()
	g.cancel(cause)
	<-g.done
}
