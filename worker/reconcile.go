package worker

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"airlock/job"
)

// Backlog is what the reconciler asks of the ledger. Every method is safe to
// repeat: a step that was cut off is found again.
type Backlog interface {
	// TakeDue moves jobs whose retry is due, or whose lease has run out, to
	// the next generation and returns those to publish, and those that are
	// dead as Buried.
	TakeDue(ctx context.Context, limit int) ([]job.Republish, error)
	// Republished notes that a generation is in the queue.
	Republished(ctx context.Context, id job.ID, generation int) error
	// ExpireOverdue ends waiting jobs whose deadline has passed.
	ExpireOverdue(ctx context.Context, limit int) (int, error)
	// Unannounced returns results that submitters were not told of.
	Unannounced(ctx context.Context, olderThan time.Duration, limit int) ([]*job.Result, error)
	Announced(ctx context.Context, id job.ID, linger time.Duration) error
	EnsurePartitions(ctx context.Context, now time.Time) error
	// Waiting counts by lane the jobs that the queue should hold and that are
	// older than settled.
	Waiting(ctx context.Context, settled time.Duration) (map[string]int, error)
	// RebuildLane has TakeDue return up to limit of them anew.
	RebuildLane(ctx context.Context, lane string, settled time.Duration, limit int) (int, error)
	// BuryUnplaceable ends up to limit jobs of a lane that have waited so long.
	BuryUnplaceable(ctx context.Context, lane string, waited time.Duration, limit int) (int, error)
	// Sweep removes rows that serve nobody any more.
	Sweep(ctx context.Context) (int, error)
	// Void tells which messages' jobs need no run.
	Void(ctx context.Context, queued []job.Queued) ([]bool, error)
	// Retire drops history of which all is older than keep.
	Retire(ctx context.Context, keep time.Duration) (job.Retired, error)
}

// Publisher puts a job into the queue again.
type Publisher interface {
	Republish(ctx context.Context, r job.Republish) error
}

// Reconciler makes good what crashed workers and lost messages left undone.
// One worker of the pool runs it at a time.
type Reconciler struct {
	Backlog   Backlog
	Publisher Publisher
	Results   Announcer
	Fleet     Fleet
	// PlacementDeadline is how long a job waits for a worker that could run
	// it while there is none; zero means for ever.
	PlacementDeadline time.Duration
	// Retain is how long history is kept; zero means for ever.
	Retain time.Duration
	// Decisions counts what it does.
	Decisions *Decisions
	Log       zerolog.Logger
}

const (
	// reconcileEvery is how often the backlog is looked at: the precision
	// of retries and of not_before.
	reconcileEvery = 500 * time.Millisecond
	// reconcileBatch bounds one look, so that each duty gets its turn.
	reconcileBatch = 500
	// refusedInARow is how many jobs the queue may refuse in a row before the
	// others wait for the next look: one tenant's full lane is no reason.
	refusedInARow = 20
	slowRefusal   = time.Second
	// announceGrace is how long a worker has to announce its own result.
	announceGrace = 20 * time.Second
	partitionsDue = time.Hour
	// partitionsAgain is when they are tried again that could not be made:
	// next month's are needed in weeks, and each try may hold claims up.
	partitionsAgain = time.Minute
)

// Run works through the backlog until ctx ends.
func (r *Reconciler) Run(ctx context.Context) {
	tick := time.NewTicker(reconcileEvery)
	defer tick.Stop()
	var partitionsAt time.Time
	inspector := r.inspector()
	for {
		if time.Now().After(partitionsAt) {
			partitionsAt = time.Now().Add(partitionsDue)
			if err := r.Backlog.EnsurePartitions(ctx, time.Now()); err != nil {
				r.warn(ctx, err, "partitions not made")
				partitionsAt = time.Now().Add(partitionsAgain)
			}
		}
		if more := r.Once(ctx); more && ctx.Err() == nil {
			continue
		}
		inspector.inspectWhenDue(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Once does one round of all duties but the inspection, and reports whether
// there is more to publish at once.
func (r *Reconciler) Once(ctx context.Context) (more bool) {
	more = r.republish(ctx)
	if n, err := r.Backlog.ExpireOverdue(ctx, reconcileBatch); err != nil {
		r.warn(ctx, err, "overdue jobs not ended")
	} else if n > 0 {
		r.Decisions.add(decidedExpired, n)
		r.Log.Info().Int(fieldCount, n).Msg("overdue jobs ended")
	}
	r.announce(ctx)
	return more
}

// republish publishes what is due. What the queue refuses is due again later.
func (r *Reconciler) republish(ctx context.Context) (more bool) {
	due, err := r.Backlog.TakeDue(ctx, reconcileBatch)
	if err != nil {
		r.warn(ctx, err, "due jobs not taken")
		return false
	}
	refused := 0
	for _, d := range due {
		if d.Buried {
			r.Decisions.add(decidedBuried+d.Reason, 1)
			r.Log.Warn().Str(fieldJob, d.Job.ID.String()).Str(fieldReason, d.Reason).Msg("job is dead")
			continue
		}
		asked := time.Now()
		err := r.Publisher.Republish(ctx, d)
		if err == nil {
			err = r.Backlog.Republished(ctx, d.Job.ID, d.Generation)
		}
		if err != nil {
			r.warn(ctx, err, "job not published again; a later round will")
			// A slow refusal is that of a queue which is away.
			if refused++; refused >= refusedInARow || time.Since(asked) > slowRefusal || ctx.Err() != nil {
				return false
			}
			continue
		}
		refused = 0
		r.Decisions.add(decidedPublished+d.Reason, 1)
		r.Log.Info().Str(fieldJob, d.Job.ID.String()).Str(fieldReason, d.Reason).Msg("job published again")
	}
	return len(due) >= reconcileBatch
}

func (r *Reconciler) announce(ctx context.Context) {
	results, err := r.Backlog.Unannounced(ctx, announceGrace, reconcileBatch)
	if err != nil {
		r.warn(ctx, err, "unannounced results not read")
		return
	}
	for _, result := range results {
		if announce(ctx, r.Log, r.Results, result) && note(ctx, r.Log, r.Backlog, result.Job, 0) {
			r.Decisions.add(decidedAnnounced, 1)
			r.Log.Info().Str(fieldJob, result.Job.String()).Msg("unannounced result announced")
		}
	}
}

func (r *Reconciler) warn(ctx context.Context, err error, what string) {
	if ctx.Err() == nil {
		r.Log.Warn().Err(err).Msg(what)
	}
}
