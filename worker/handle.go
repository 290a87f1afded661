package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"airlock/job"
	"airlock/worker/failpoint"
	"airlock/worker/trace"
)

const (
	// pauseUnreachable is how long a delivery waits in the queue when the
	// ledger cannot be reached: short, since a delayed delivery takes the
	// place of a running one.
	pauseUnreachable = 2 * time.Second
	// pauseUnfit is the same for a job that no backend here fits any more.
	pauseUnfit = time.Second
	// claimPatience is how long a claim that could not be made, or whose answer
	// was lost, is made again at once. Only this worker can have the job that
	// it claimed without knowing; to the others it is held until the lease of
	// an attempt that nobody runs has ended.
	claimPatience = 3 * time.Second
	// maxHeldPause bounds the wait for another worker's lease.
	maxHeldPause = 10 * time.Second
	// commitPatience is how long the end of an attempt is tried to be
	// committed; the lease's own end comes first while heartbeats fail too.
	commitPatience = 10 * time.Minute
	// linger is how long what nobody waits for just now is put off, so that it
	// shares a transaction with what comes by then.
	linger = 20 * time.Millisecond
	// afterCommit bounds acknowledging and announcing, each of which the
	// reconciler makes good if it fails.
	afterCommit = 15 * time.Second
)

// Handle takes a delivered job to its end: claim, run, commit, acknowledge,
// announce. It returns when nothing of the attempt is left. ctx ends it early
// only to leave at once; Cancel and HandBack are the orderly ways.
func (w *Worker) Handle(ctx context.Context, d job.Delivery) {
	span := w.cfg.Trace.Begin(d.Job.ID, d.Queued)
	defer span.End()
	w.handle(ctx, d, span)
}

func (w *Worker) handle(ctx context.Context, d job.Delivery, span *trace.Span) {
	log := w.cfg.Log.With().Str(fieldJob, d.Job.ID.String()).Logger()
	w.behind.Store(d.Behind)
	box, err := w.choose(d.Job)
	if err != nil {
		span.Status(ClaimUnfit)
		w.cfg.Meter.Claim(ClaimUnfit)
		log.Warn().Err(err).Msg("job given back")
		w.later(log, d, pauseUnfit)
		return
	}
	w.cfg.Fail.At(failpoint.BeforeClaim)
	asked := time.Now()
	claim, err := w.claim(ctx, job.ClaimRequest{
		Job: d.Job, Generation: d.Generation, Worker: w.cfg.ID, Backend: box.Name, Queued: d.Queued,
	})
	if err != nil {
		span.Status(ClaimUnreachable)
		w.cfg.Meter.Claim(ClaimUnreachable)
		log.Warn().Err(err).Msg("job not claimed")
		w.later(log, d, jitter(pauseUnreachable))
		return
	}
	span.Status(claim.Verdict.String())
	w.cfg.Meter.Claim(claim.Verdict.String())
	switch claim.Verdict {
	case job.Claimed:
		span.Claim(claim.Attempt, box.Name)
		w.since(box.Name, PhaseClaim, asked)
		w.run(ctx, log, d, box, claim, asked, span)
	case job.Held:
		w.later(log, d, jitter(min(claim.LeaseLeft+time.Second, maxHeldPause)))
	case job.Mismatched:
		log.Error().Msg("job id is taken by a job with another content; this one was removed")
		w.acknowledge(ctx, log, d)
	case job.Ended, job.Superseded, job.Postponed:
		log.Debug().Stringer(fieldVerdict, claim.Verdict).Msg("delivery needs no run")
		w.acknowledge(ctx, log, d)
	}
}

func (w *Worker) claim(ctx context.Context, r job.ClaimRequest) (job.Claim, error) {
	giveUp := time.Now().Add(claimPatience)
	for pause := 100 * time.Millisecond; ; pause *= 2 {
		claim, err := w.cfg.Ledger.Claim(ctx, r)
		if err == nil || !errors.Is(err, job.ErrUnreachable) || time.Now().Add(pause).After(giveUp) {
			return claim, err
		}
		select {
		case <-ctx.Done():
			return claim, err
		case <-time.After(jitter(pause)):
		}
	}
}

func (w *Worker) run(ctx context.Context, log zerolog.Logger, d job.Delivery, box *Sandbox, claim job.Claim, asked time.Time, span *trace.Span) {
	a := &job.Attempt{
		Job: d.Job, Number: claim.Attempt, Worker: w.cfg.ID, Backend: box.Name,
		Queued: claim.Queued, Claimed: time.Now(), TraceParent: d.TraceParent,
	}
	log = log.With().Int(fieldAttempt, a.Number).Str(fieldBackend, box.Name).Str(fieldTenant, d.Job.Tenant).
		Str(fieldBatch, d.Job.Batch).Logger()
	runCtx, end := context.WithCancelCause(ctx)
	defer end(nil)
	l := w.hold(a, d, asked, end)
	l.span = span
	defer w.drop(l)
	log.Info().Msg("job claimed")
	w.tellClaimed(a)
	if !a.Queued.IsZero() {
		w.cfg.Meter.Phase(box.Name, PhaseQueue, max(0, a.Claimed.Sub(a.Queued)))
	}

	if claim.CancelRequested || w.cfg.Cancelled(d.Job) {
		end(job.ErrCancelled)
	}
	w.cfg.Fail.At(failpoint.AfterClaim)
	result := w.execute(runCtx, a, box, span)
	l.settled.Store(true)
	w.cfg.Fail.At(failpoint.ResultReady)
	w.measure(result.Usage, box.Name)
	failed := backendFailed(result)
	w.cfg.Ended(box.Name, failed)
	if failed || refused(result) {
		w.failures.note(d.Job.ID, box.Name)
	}
	if cause := context.Cause(runCtx); silent(cause) {
		span.Status(AttemptAbandoned)
		w.lost(box.Name, cause)
		log.Warn().Str(fieldReason, cause.Error()).Msg("attempt abandoned")
		return
	} else if errors.Is(cause, job.ErrShutdown) && result.Status == job.StatusInfraError {
		span.Status("handed back")
		w.cfg.Meter.Attempt(box.Name, AttemptHandedBack)
		w.handBack(log, a, d)
		return
	}
	// Nothing is left of the guest. The rest waits for others, and a worker
	// with few slots would do nothing meanwhile.
	if d.Leave != nil {
		d.Leave()
	}
	span.Leave()
	span.Status(string(result.Status))
	w.conclude(runCtx, log, l, result)
}

func (w *Worker) tellClaimed(a *job.Attempt) {
	if w.cfg.Events != nil {
		w.cfg.Events(a.Job, job.News{
			Kind: job.NewsClaimed, Attempt: a.Number, At: a.Claimed.UTC(), Worker: a.Worker, Backend: a.Backend,
		})
	}
}

// conclude commits the end of an attempt, then acknowledges and announces.
func (w *Worker) conclude(ctx context.Context, log zerolog.Logger, l *lease, result *job.Result) {
	backend, began := l.attempt.Backend, time.Now()
	state, err := w.commit(ctx, l.attempt, result)
	if err != nil {
		w.lost(backend, err)
		log.Error().Err(err).Str(fieldStatus, string(result.Status)).Msg("end of attempt not recorded")
		return
	}
	l.span.Mark(trace.Committed)
	w.since(backend, PhaseCommit, began)
	w.cfg.Meter.Attempt(backend, string(result.Status))
	event := log.Info().Str(fieldState, string(state)).Str(fieldStatus, string(result.Status)).
		Dur(fieldWall, result.Usage.Wall.Std()).Int(fieldCalls, result.ToolCalls)
	if result.Status == job.StatusInfraError && result.Error != nil {
		event = event.Str(fieldReason, result.Error.Message)
	}
	event.Msg("attempt ended")
	w.cfg.Fail.At(failpoint.AfterCommit)
	w.tell(ctx, log, l, state, result)
}

// tell acknowledges the job and announces its result.
func (w *Worker) tell(ctx context.Context, log zerolog.Logger, l *lease, state job.State, result *job.Result) {
	if w.cfg.Fail.Armed(failpoint.AfterAck) {
		w.acknowledge(ctx, log, l.deliver) // again below, which does no harm
		w.cfg.Fail.At(failpoint.AfterAck)
	}
	// Neither waits for the other: both only tell what is committed. Emptying
	// the queue costs its server a new file, which took 1.3 ms where the rest
	// of the announcement took 0.3.
	var told sync.WaitGroup
	began := time.Now()
	if state.Ended() {
		told.Go(func() {
			if w.withTries(ctx, log, result) && announce(ctx, log, w.cfg.Results, result) {
				l.span.Mark(trace.Announced)
				w.since(l.attempt.Backend, PhaseAnnounce, began)
				note(ctx, log, w.cfg.Ledger, result.Job, linger)
			}
		})
	}
	if w.acknowledge(ctx, log, l.deliver) {
		l.span.Mark(trace.Acknowledged)
		w.since(l.attempt.Backend, PhaseAck, began)
		if state.Ended() && l.deliver.Forget != nil {
			w.forget(ctx, log, l.deliver)
		}
	}
	told.Wait()
}

// commit tries until it is done, fenced off, or the lease is lost. A result
// that the ledger cannot store is replaced by one that says so: a result is
// never lost for its content.
func (w *Worker) commit(ctx context.Context, a *job.Attempt, result *job.Result) (job.State, error) {
	// The guest is gone: only the loss of the lease may stop this.
	deadline := time.Now().Add(commitPatience)
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		state, err := w.record(context.WithoutCancel(ctx), a, result)
		switch {
		case err == nil:
			return state, nil
		case errors.Is(err, job.ErrFenced):
			return "", err
		case !errors.Is(err, job.ErrUnreachable) && final(result):
			return "", err
		case !errors.Is(err, job.ErrUnreachable):
			w.cfg.Log.Error().Err(err).Str(fieldJob, a.Job.ID.String()).Msg("result cannot be stored as it is")
			result = unstorable(result, err)
		}
		if silent(context.Cause(ctx)) {
			return "", context.Cause(ctx)
		}
		if time.Now().After(deadline) {
			return "", err
		}
		time.Sleep(jitter(pause))
	}
}

func (w *Worker) record(ctx context.Context, a *job.Attempt, result *job.Result) (job.State, error) {
	if !retried(a.Job, result) {
		state := job.StateFinished
		if result.Status == job.StatusInfraError {
			state = job.StateDead
		}
		return state, w.cfg.Ledger.Finish(ctx, a, result, w.patience())
	}
	return w.cfg.Ledger.Retry(ctx, a, result, retryAfter(a.Number))
}

// patience is how long a result may wait to be committed together with others.
// While jobs wait for this worker, more results are about to come, and its slots
// have work; otherwise somebody may wait for this one before it submits more.
func (w *Worker) patience() time.Duration {
	if w.behind.Load() {
		return linger
	}
	return 0
}

// handBack gives a job that was interrupted by a shutdown to another worker.
func (w *Worker) handBack(log zerolog.Logger, a *job.Attempt, d job.Delivery) {
	ctx, cancel := context.WithTimeout(context.Background(), afterCommit)
	defer cancel()
	if err := w.cfg.Ledger.Release(ctx, a); err != nil {
		log.Warn().Err(err).Msg("job not released; its lease will run out")
		return
	}
	log.Info().Msg("job handed back")
	w.later(log, d, 0)
}

func (w *Worker) later(log zerolog.Logger, d job.Delivery, pause time.Duration) {
	if err := d.Later(pause); err != nil {
		log.Warn().Err(err).Msg("delivery not given back; the queue will deliver it again")
	}
}

// acknowledge reports whether the queue has confirmed it.
func (w *Worker) acknowledge(ctx context.Context, log zerolog.Logger, d job.Delivery) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), afterCommit)
	defer cancel()
	err := d.Ack(ctx)
	if err != nil {
		log.Warn().Err(err).Msg("job not acknowledged; it will be delivered again and found ended")
	}
	return err == nil
}

// forget frees the room of a job that has ended. What is left ages.
func (w *Worker) forget(ctx context.Context, log zerolog.Logger, d job.Delivery) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), afterCommit)
	defer cancel()
	if err := d.Forget(ctx); err != nil {
		log.Warn().Err(err).Msg("body of an ended job not dropped; it ages")
	}
}

// announce tells submitters and reports whether it did. The queue drops what it
// is told again.
func announce(ctx context.Context, log zerolog.Logger, results Announcer, r *job.Result) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), afterCommit)
	defer cancel()
	err := results.Announce(ctx, r)
	if err != nil {
		log.Warn().Err(err).Str(fieldJob, r.Job.String()).Msg("result not announced; the reconciler will")
	}
	return err == nil
}

// note has the ledger know that submitters were told, and reports whether it
// does: until then the reconciler tells them again.
func note(ctx context.Context, log zerolog.Logger, ledger interface {
	Announced(ctx context.Context, id job.ID, linger time.Duration) error
}, id job.ID, linger time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), afterCommit)
	defer cancel()
	err := ledger.Announced(ctx, id, linger)
	if err != nil {
		log.Warn().Err(err).Str(fieldJob, id.String()).Msg("announcement not noted; the reconciler will repeat it")
	}
	return err == nil
}
