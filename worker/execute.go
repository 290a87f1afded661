package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"time"

	"airlock/backends"
	"airlock/job"
	"airlock/worker/failpoint"
	"airlock/worker/trace"
)

// execute runs one guest and judges its end. It does not touch the ledger.
// When ctx has ended already, no guest starts and the cause is the result.
func (w *Worker) execute(ctx context.Context, a *job.Attempt, box *Sandbox, span *trace.Span) *job.Result {
	if over := a.Job.Limits.Above(w.cfg.Max); over != "" {
		return bare(a, box, job.StatusInfraError, errLimitAboveMaximum, over+" on this worker")
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	if !a.Job.Deadline.IsZero() {
		timer := time.AfterFunc(time.Until(a.Job.Deadline), func() { end(job.ErrExpired) })
		defer timer.Stop()
		if !time.Now().Before(a.Job.Deadline) {
			end(job.ErrExpired)
		}
	}
	if cause := context.Cause(ctx); cause != nil {
		return interrupted(a, box, cause)
	}

	run := &guestRun{
		attempt: a, box: box, fail: w.cfg.Fail,
		clock:  newClock(a.Job.Limits.Wall.Std(), func() { end(job.ErrTimeout) }),
		output: newOutput(a.Job.Limits.Output, func() { end(job.ErrOutputLimit) }),
	}
	if tell := w.cfg.Events; tell != nil {
		run.tell = func(n job.News) { tell(a.Job, n) }
		run.output.tellLive(a.Number, run.tell)
	}
	run.outcome, run.err = w.guarded(ctx, box.Backend, run.task(w.cfg.Tools))
	run.output.live.close()
	run.wall = run.clock.stop()
	run.cause = context.Cause(ctx)
	span.Mark(trace.Gone)
	if errors.Is(run.err, errPanic) {
		// What the guest's goroutines still do is not known: nothing of theirs
		// is read.
		return bare(a, box, job.StatusInfraError, errBackend, run.err.Error())
	}
	run.mark(span)
	return run.result()
}

var errPanic = errors.New("panic")

// guarded runs a guest. A panic on its way is our failure of this one job, and
// not the end of the others that run here.
func (w *Worker) guarded(ctx context.Context, b backends.Backend, task backends.Task) (outcome backends.Outcome, err error) {
	defer func() {
		if p := recover(); p != nil {
			w.cfg.Log.Error().Str(fieldJob, task.Job.String()).Bytes(fieldStack, debug.Stack()).Msg("panic while a guest ran")
			err = fmt.Errorf("%w: %v", errPanic, p)
		}
	}()
	return b.Run(ctx, task)
}

// guestRun is everything that is known of one guest.
type guestRun struct {
	attempt *job.Attempt
	box     *Sandbox
	fail    *failpoint.Points
	clock   *clock
	output  *output
	// tell is told what happens; nil without anybody to tell.
	tell func(job.News)

	// report and serveErr are written by Serve, which has returned before
	// the backend's Run does.
	report   *job.Report
	serveErr error

	outcome backends.Outcome
	err     error
	cause   error
	wall    time.Duration
}

func (g *guestRun) task(tools ToolServer) backends.Task {
	j := g.attempt.Job
	return backends.Task{
		Job:      j.ID,
		Attempt:  g.attempt.Number,
		Tenant:   j.Tenant,
		Template: j.Requires.Template(),
		Limits:   j.Limits,
		Enforce:  j.Requires.Limits,
		Image:    j.Requires.Image,
		Network:  j.Network,
		Stdin:    j.Stdin,
		Stdout:   &g.output.stdout,
		Stderr:   &g.output.stderr,
		Serve: func(ctx context.Context, channel io.ReadWriteCloser) error {
			g.report, g.serveErr = tools.Serve(ctx, g.attempt, channel, g.hooks())
			return g.serveErr
		},
	}
}

// hooks are the clock's. Its start is when the guest has its code.
func (g *guestRun) hooks() job.Clock {
	hooks := g.clock.hooks()
	if g.tell != nil {
		start := hooks.Start
		hooks.Start = func() {
			start()
			g.tell(job.News{Kind: job.NewsStarted, Attempt: g.attempt.Number, At: time.Now().UTC()})
		}
	}
	if g.fail.Armed(failpoint.GuestRunning) {
		start := hooks.Start
		hooks.Start = func() { start(); g.fail.At(failpoint.GuestRunning) }
	}
	return hooks
}

// mark notes the moments that the conversation told of. A guest that printed
// before it had its code did so on its interpreter's behalf.
func (g *guestRun) mark(span *trace.Span) {
	if span == nil || g.report == nil {
		return
	}
	span.MarkAt(trace.Ready, g.report.Ready)
	span.MarkAt(trace.Sent, g.report.Sent)
	span.MarkAt(trace.First, g.report.Spoke)
	if printed := g.output.began(); !g.report.Sent.IsZero() && printed.After(g.report.Sent) {
		span.MarkAt(trace.First, printed)
	}
	span.MarkAt(trace.Result, g.report.Returned)
}

// result is the judged end with all that was measured.
func (g *guestRun) result() *job.Result {
	if g.report == nil {
		g.report = &job.Report{}
	}
	end := g.judge()
	r := base(g.attempt, g.box)
	r.Status, r.Error = end.status, end.err
	if end.status == job.StatusOK {
		r.Value, r.Lossy = g.report.Value, g.report.Lossy
	}
	r.Stdout, r.StdoutBytes, r.StdoutTruncated = g.output.stdout.kept, g.output.stdout.total, g.output.stdout.truncated()
	r.Stderr, r.StderrBytes, r.StderrTruncated = g.output.stderr.kept, g.output.stderr.total, g.output.stderr.truncated()
	r.ToolCalls, r.AuditHead, r.Policy = g.report.ToolCalls, g.report.AuditHead, g.report.Policy
	r.Events = g.events(end.status)
	if g.bringsFiles(end) {
		r.Artifacts = g.report.Artifacts
	}
	r.Isolation = g.box.Can.Isolated
	if g.outcome.Isolated != nil {
		r.Isolation = *g.outcome.Isolated
	}
	g.exit(r)
	g.usage(&r.Usage)
	return r
}

func (g *guestRun) exit(r *job.Result) {
	switch g.outcome.Cause {
	case backends.Exited:
		code := g.outcome.ExitCode
		r.ExitCode = &code
	default:
		r.Signal = g.outcome.Signal
	}
}

func (g *guestRun) usage(u *job.Usage) {
	u.Wall, u.ToolWait = job.Duration(g.wall), job.Duration(g.report.ToolWait)
	u.CPU = job.Duration(g.outcome.CPU)
	u.PeakMemory, u.PeakProcesses = g.outcome.PeakMemory, g.outcome.PeakProcesses
	if !g.report.Ready.IsZero() {
		u.Startup = job.Duration(g.report.Ready.Sub(g.attempt.Claimed))
	}
}

// base is a result that names its attempt and nothing else.
func base(a *job.Attempt, box *Sandbox) *job.Result {
	r := &job.Result{
		Job: a.Job.ID, Key: a.Job.Key, Tenant: a.Job.Tenant, Batch: a.Job.Batch,
		Attempt: a.Number, Worker: a.Worker, Finished: time.Now().UTC(),
	}
	if box != nil {
		r.Backend = box.Name
	}
	if !a.Queued.IsZero() {
		r.Usage.QueueWait = job.Duration(max(0, a.Claimed.Sub(a.Queued)))
	}
	return r
}

// bare is the result of an attempt in which no guest ran.
func bare(a *job.Attempt, box *Sandbox, status job.Status, code, message string) *job.Result {
	r := base(a, box)
	r.Status = status
	r.Error = &job.Error{Type: code, Message: message}
	return r
}
