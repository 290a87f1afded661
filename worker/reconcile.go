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
	// the next generation and returns those to publish.
	TakeDue(ctx context.Context, limit int) ([]job.Republish, error)
	// Republished notes that a generation is in the queue.
	Republished(ctx context.Context, id job.ID, generation int) error
	// ExpireOverdue ends waiting jobs whose deadline has passed.
	ExpireOverdue(ctx context.Context, limit int) (int, error)
	// Unannounced returns results that submitters were not told of.
	Unannounced(ctx context.Context, olderThan time.Duration, limit int) ([]*job.Result, error)
	Announced(ctx context.Context, id job.ID) error
	EnsurePartitions(ctx context.Context, now time.Time) error
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
	Log       zerolog.Logger
}

const (
	// reconcileEvery is how often the backlog is looked at: the precision
	// of retries and of not_before.
	reconcileEvery = 500 * time.Millisecond
	// reconcileBatch bounds one look, so that each duty gets its turn.
	reconcileBatch = 500
	// announceGrace is how long a worker has to announce its own result.
	announceGrace = 20 * time.Second
	partitionsDue = time.Hour
)

// Run works through the backlog until ctx ends.
func (r *Reconciler) Run(ctx context.Context) {
	tick := time.NewTicker(reconcileEvery)
	defer tick.Stop()
	var partitioned time.Time
	for {
		if time.Since(partitioned) > partitionsDue {
			if err := r.Backlog.EnsurePartitions(ctx, time.Now()); err != nil {
				r.warn(ctx, err, "partitions not made")
			} else {
				partitioned = time.Now()
			}
		}
		r.Once(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Once does one round of all duties.
func (r *Reconciler) Once(ctx context.Context) {
	r.republish(ctx)
	if n, err := r.Backlog.ExpireOverdue(ctx, reconcileBatch); err != nil {
		r.warn(ctx, err, "overdue jobs not ended")
	} else if n > 0 {
		r.Log.Info().Int(fieldCount, n).Msg("overdue jobs ended")
	}
	r.announce(ctx)
}

func (r *Reconciler) republish(ctx context.Context) {
	due, err := r.Backlog.TakeDue(ctx, reconcileBatch)
	if err != nil {
		r.warn(ctx, err, "due jobs not taken")
		return
	}
	for _, d := range due {
		err := r.Publisher.Republish(ctx, d)
		if err == nil {
			err = r.Backlog.Republished(ctx, d.Job.ID, d.Generation)
		}
		if err != nil {
			r.warn(ctx, err, "job not published again; the next round will")
			return
		}
		r.Log.Info().Str(fieldJob, d.Job.ID.String()).Str(fieldReason, d.Reason).Msg("job published again")
	}
}

func (r *Reconciler) announce(ctx context.Context) {
	results, err := r.Backlog.Unannounced(ctx, announceGrace, reconcileBatch)
	if err != nil {
		r.warn(ctx, err, "unannounced results not read")
		return
	}
	for _, result := range results {
		announce(ctx, r.Log, r.Backlog, r.Results, result)
	}
}

func (r *Reconciler) warn(ctx context.Context, err error, what string) {
	if ctx.Err() == nil {
		r.Log.Warn().Err(err).Msg(what)
	}
}
