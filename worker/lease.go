package worker

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"airlock/job"
	"airlock/worker/trace"
)

// lease is the right to run one attempt, as long as heartbeats confirm it.
type lease struct {
	attempt *job.Attempt
	deliver job.Delivery
	// end kills the guest with a cause; the first one counts.
	end context.CancelCauseFunc
	// lapse fires when no heartbeat has confirmed the lease for too long.
	lapse *time.Timer
	// settled: the backend has returned; given: it was given up before.
	settled, given atomic.Bool
	// span is nil unless there is a trace.
	span *trace.Span
}

// hold registers an attempt that was claimed at the given moment.
func (w *Worker) hold(a *job.Attempt, d job.Delivery, claimed time.Time, end context.CancelCauseFunc) *lease {
	l := &lease{attempt: a, deliver: d, end: end}
	l.lapse = time.AfterFunc(lapseAfter(claimed), func() { end(job.ErrLeaseLost) })
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held[a.Job.ID] = l
	return l
}

// drop forgets the attempt: from here on nobody extends its lease.
func (w *Worker) drop(l *lease) {
	l.lapse.Stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held[l.attempt.Job.ID] == l {
		delete(w.held, l.attempt.Job.ID)
	}
}

func (w *Worker) leases() []*lease {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make([]*lease, 0, len(w.held))
	for _, l := range w.held {
		all = append(all, l)
	}
	return all
}

// lapseAfter is how long a lease that was confirmed by a request sent at
// that moment may be relied on, with a margin to kill the guest in.
func lapseAfter(confirmed time.Time) time.Duration {
	return max(0, job.Lease-job.LeaseMargin-time.Since(confirmed))
}

// Heartbeat extends the leases of all running attempts until ctx ends: first
// in the ledger, and then in the queue for those that are still ours.
func (w *Worker) Heartbeat(ctx context.Context) {
	tick := time.NewTicker(job.HeartbeatEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			w.beat(ctx)
		}
	}
}

func (w *Worker) beat(ctx context.Context) {
	leases := w.giveUpWedged(w.leases())
	if len(leases) == 0 {
		return
	}
	asked := time.Now()
	held := make([]job.Holding, len(leases))
	for i, l := range leases {
		held[i] = job.Holding{Job: l.attempt.Job.ID, Attempt: l.attempt.Number}
	}
	ctx, cancel := context.WithTimeout(ctx, job.LeaseMargin)
	defer cancel()
	beats, err := w.cfg.Ledger.Heartbeat(ctx, w.cfg.ID, held)
	if err != nil {
		// Leases run on until their timers fire; the next tick tries again.
		w.cfg.Log.Warn().Err(err).Int(fieldHeld, len(held)).Msg("heartbeat not recorded")
		return
	}
	ours := make(map[job.Holding]job.Heartbeat, len(beats))
	for _, b := range beats {
		ours[b.Holding] = b
	}
	for i, l := range leases {
		beat, ok := ours[held[i]]
		if !ok {
			l.end(job.ErrLeaseLost)
			continue
		}
		w.confirm(l, beat, asked)
	}
}

func (w *Worker) confirm(l *lease, beat job.Heartbeat, asked time.Time) {
	if l.lapse.Stop() {
		l.lapse.Reset(lapseAfter(asked))
	}
	if beat.CancelRequested {
		l.end(job.ErrCancelled)
	}
	if err := l.deliver.KeepAlive(); err != nil {
		w.cfg.Log.Warn().Err(err).Str(fieldJob, l.attempt.Job.ID.String()).Msg("queue not told that the job is alive")
	}
}

// silent reports whether the cause forbids writing and acknowledging.
func silent(cause error) bool {
	return errors.Is(cause, job.ErrLeaseLost) || errors.Is(cause, job.ErrFenced)
}
