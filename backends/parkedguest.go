package backends

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"airlock/job"
)

// class is what must be set before a guest starts.
type class struct {
	tenant    string
	template  string
	image     string
	network   bool
	cpu       job.Duration
	memory    job.Size
	processes int
	disk      job.Size
}

func classOf(t Task) class {
	l := t.Limits
	return class{
		tenant: t.Tenant, template: t.Template, image: t.Image, network: t.Network,
		cpu: l.CPU, memory: l.Memory, processes: l.Processes, disk: l.Disk,
	}
}

// classifier says of what class a guest for a task of the backend is.
func classifier(b Backend) func(Task) class {
	if parker, ok := b.(Parker); ok {
		return func(t Task) class { return classOf(parker.Parks(t)) }
	}
	return func(t Task) class {
		t.Tenant, t.Template = "", ""
		return classOf(t)
	}
}

// task is one whose guest can be any job's of the class.
func (c class) task() Task {
	l := job.DefaultLimits()
	l.CPU, l.Memory, l.Processes, l.Disk = c.cpu, c.memory, c.processes, c.disk
	return Task{Tenant: c.tenant, Template: c.template, Image: c.image, Network: c.network, Limits: l}
}

// MarshalZerologObject implements zerolog.LogObjectMarshaler.
func (c class) MarshalZerologObject(e *zerolog.Event) {
	e.Str("tenant", c.tenant).Str("template", c.template).Str("image", c.image).Bool("network", c.network).
		Dur("cpu", c.cpu.Std()).Int64("memory", int64(c.memory)).Int("processes", c.processes).Int64("disk", int64(c.disk))
}

// parkedGuest is a guest that runs before its task is known.
type parkedGuest struct {
	ctx    context.Context // the guest's, from before there is a caller
	cancel context.CancelCauseFunc
	kind   *kind
	born   time.Time
	// greeted is called when the guest has said something.
	greeted func()
	// tasks hands the one task to the conversation; heard is closed when a
	// guest that still lives gets it.
	tasks          chan Task
	heard          chan struct{}
	stdout, stderr lateWriter
	// done is closed when outcome, err and refused are set; the last is why
	// the guest could not be held to its job's limits.
	done    chan struct{}
	outcome Outcome
	err     error
	refused error

	// stood is when the guest greeted; leaving says that it is being ended.
	// The mutex of parked guards both.
	stood   time.Time
	leaving bool
}

func newParkedGuest(k *kind) *parkedGuest {
	g := &parkedGuest{
		kind: k, born: time.Now(), tasks: make(chan Task), heard: make(chan struct{}), done: make(chan struct{}),
	}
	g.ctx, g.cancel = context.WithCancelCause(context.Background())
	return g
}

func (g *parkedGuest) standing() bool { return !g.stood.IsZero() }

// told reports whether the guest got its task.
func (g *parkedGuest) told() bool {
	select {
	case <-g.heard:
		return true
	default:
		return false
	}
}

// run is the guest's whole life.
func (g *parkedGuest) run(b Backend, task Task) {
	defer close(g.done)
	defer g.cancel(nil)
	task.Stdout, task.Stderr = &g.stdout, &g.stderr
	task.Serve = g.serve
	g.outcome, g.err = b.Run(g.ctx, task)
}

// serve waits for the task with an ear at the channel, where a guest greets
// and where its end shows.
func (g *parkedGuest) serve(ctx context.Context, channel io.ReadWriteCloser) error {
	ch, ok := channel.(conn)
	if !ok {
		return fmt.Errorf("guests with a channel of %T cannot be parked", channel)
	}
	limiter, _ := channel.(Limiter)
	spoke, over, settle := prime(ch)
	for {
		select {
		case task := <-g.tasks:
			return g.tell(ctx, task, settle(), limiter)
		case <-spoke:
			g.greeted()
			spoke = nil
		case <-over:
			if err := settle().err; err != nil {
				return hungUp(err)
			}
			over = nil
		case <-ctx.Done():
			settle()
			return context.Cause(ctx)
		}
	}
}

func (g *parkedGuest) tell(ctx context.Context, task Task, ch *primed, limiter Limiter) error {
	if ch.err != nil {
		return hungUp(ch.err)
	}
	if limiter != nil {
		if err := limiter.Limit(task.Limits); err != nil {
			g.refused = fmt.Errorf("set the job's limits on a parked guest: %w", err)
			return g.refused
		}
	}
	close(g.heard)
	g.stdout.bind(task.Stdout)
	g.stderr.bind(task.Stderr)
	return task.Serve(ctx, ch)
}

func hungUp(err error) error { return fmt.Errorf("parked guest hung up: %w", err) }

// accept gives the guest its task. It reports false when the guest has ended
// without having heard of it, or ctx has.
func (g *parkedGuest) accept(ctx context.Context, task Task) bool {
	select {
	case g.tasks <- task:
		select {
		case <-g.heard:
		case <-g.done:
		}
		return g.told()
	case <-g.done:
	case <-ctx.Done():
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
