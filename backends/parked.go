package backends

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/rs/zerolog"

	"airlock/job"
)

// errUnparked is the cause that ends a parked guest nobody needs.
var errUnparked = errors.New("parked guest is not needed")

// Parked wraps a backend so that up to n guests stand ready before their jobs
// arrive. A parked guest is a fresh one that has not been told anything: it is
// started like any other, with the default limits, and waits for its job
// frame. It serves one job and is gone.
//
// A job with other kernel limits, or with standard input, gets a guest of its
// own, started when it arrives. So does one that finds no guest parked.
// Guests are parked by Probe, and again whenever a Run returns, so that one
// starts while the slot is not busy; Close ends them.
func Parked(b Backend, n int, log zerolog.Logger) Backend {
	if n <= 0 {
		return b
	}
	return &parked{Backend: b, size: n, log: log, limits: job.DefaultLimits()}
}

type parked struct {
	Backend
	size   int
	log    zerolog.Logger
	limits job.Limits

	mu sync.Mutex
	// holds are the limits the backend was found to enforce; guarded by mu.
	holds  []job.LimitName
	probed bool           // guarded by mu
	closed bool           // guarded by mu
	ready  []*parkedGuest // oldest first; guarded by mu
	guests sync.WaitGroup
}

// Probe implements Backend.
func (p *parked) Probe(ctx context.Context) (Capabilities, error) {
	can, err := p.Backend.Probe(ctx)
	if err != nil {
		return can, err
	}
	p.mu.Lock()
	p.holds, p.probed = can.Limits, true
	p.mu.Unlock()
	p.fill()
	return can, nil
}

// Run implements Backend.
func (p *parked) Run(ctx context.Context, task Task) (Outcome, error) {
	defer p.fill()
	for ctx.Err() == nil {
		g := p.take(task)
		if g == nil {
			break
		}
		if g.accept(ctx, task) {
			return g.end(ctx)
		}
	}
	return p.Backend.Run(ctx, task)
}

// Close implements Backend.
func (p *parked) Close() error {
	p.mu.Lock()
	p.closed = true
	for _, g := range p.ready {
		g.cancel(errUnparked)
	}
	p.ready = nil
	p.mu.Unlock()
	p.guests.Wait()
	return p.Backend.Close()
}

// take removes the oldest guest that fits the task, or returns nil.
func (p *parked) take(task Task) *parkedGuest {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := task.Limits
	same := l.CPU == p.limits.CPU && l.Memory == p.limits.Memory && l.Processes == p.limits.Processes && l.Disk == p.limits.Disk
	if !same || len(task.Stdin) > 0 || len(p.ready) == 0 {
		return nil
	}
	for _, limit := range task.Enforce {
		if !slices.Contains(p.holds, limit) {
			return nil
		}
	}
	g := p.ready[0]
	p.ready = slices.Delete(p.ready, 0, 1)
	return g
}

// fill parks guests until there are enough.
func (p *parked) fill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.probed && !p.closed && len(p.ready) < p.size {
		g := newParkedGuest()
		p.ready = append(p.ready, g)
		p.guests.Go(func() {
			g.run(p.Backend, Task{Limits: p.limits, Enforce: p.holds})
			p.forget(g)
		})
	}
}

// forget drops a guest that ended while it was parked.
func (p *parked) forget(g *parkedGuest) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := slices.Index(p.ready, g)
	if at < 0 {
		return
	}
	p.ready = slices.Delete(p.ready, at, at+1)
	p.log.Warn().Err(g.err).Stringer("cause", g.outcome.Cause).Msg("parked guest ended before its job came")
}

// parkedGuest is a guest that runs before its task is known.
type parkedGuest struct {
	ctx    context.Context // the guest's, from before there is a caller
	cancel context.CancelCauseFunc
	// tasks hands the one task to the conversation.
	tasks          chan Task
	stdout, stderr lateWriter
	// done is closed when outcome and err are set.
	done    chan struct{}
	outcome Outcome
	err     error
}

func newParkedGuest() *parkedGuest {
	g := &parkedGuest{tasks: make(chan Task), done: make(chan struct{})}
	g.ctx, g.cancel = context.WithCancelCause(context.Background())
	return g
}

// run is the guest's whole life.
func (g *parkedGuest) run(b Backend, task Task) {
	defer close(g.done)
	defer g.cancel(nil)
	task.Stdout, task.Stderr = &g.stdout, &g.stderr
	task.Serve = g.serve
	g.outcome, g.err = b.Run(g.ctx, task)
}

func (g *parkedGuest) serve(ctx context.Context, channel io.ReadWriteCloser) error {
	ch, ok := channel.(conn)
	if !ok {
		return fmt.Errorf("guests with a channel of %T cannot be parked", channel)
	}
	spoke, settle := prime(ch)
	for {
		select {
		case task := <-g.tasks:
			g.stdout.bind(task.Stdout)
			g.stderr.bind(task.Stderr)
			return task.Serve(ctx, settle())
		case <-spoke:
			if p := settle(); p.err != nil {
				return fmt.Errorf("parked guest hung up: %w", p.err)
			}
			spoke = nil
		case <-ctx.Done():
			settle()
			return context.Cause(ctx)
		}
	}
}

// accept gives the guest its task. It reports false when the guest has ended
// without having heard of it, or ctx has.
func (g *parkedGuest) accept(ctx context.Context, task Task) bool {
	select {
	case g.tasks <- task:
		return true
	case <-g.done:
	case <-ctx.Done():
		g.cancel(context.Cause(ctx))
		<-g.done
	}
	return false
}

// end waits for the guest, which ends with the caller's ctx too.
func (g *parkedGuest) end(ctx context.Context) (Outcome, error) {
	unhook := context.AfterFunc(ctx, func() { g.cancel(context.Cause(ctx)) })
	defer unhook()
	<-g.done
	return g.outcome, g.err
}

// lateWriter keeps what is written until it knows where to. A guest without a
// job says nothing; what starts it may complain, shortly.
type lateWriter struct {
	mu   sync.Mutex
	to   io.Writer // guarded by mu
	kept []byte    // guarded by mu
}

// keptBefore bounds what is kept.
const keptBefore = 8 << 10

// Write implements io.Writer.
func (w *lateWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.to != nil {
		return w.to.Write(b)
	}
	w.kept = append(w.kept, b[:min(len(b), keptBefore-len(w.kept))]...)
	return len(b), nil
}

func (w *lateWriter) bind(to io.Writer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.to = to
	if len(w.kept) > 0 {
		_, _ = to.Write(w.kept) // writers of a Task never fail
	}
	w.kept = nil
}
