package worker

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/rs/zerolog"

	"airlock/job"
)

// withTries sets the earlier attempts beside a result, if there were any. It
// reports whether it could: if not, the reconciler announces the result.
func (w *Worker) withTries(ctx context.Context, log zerolog.Logger, r *job.Result) bool {
	if r.Attempt == 1 {
		return true
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), afterCommit)
	defer cancel()
	tries, err := w.cfg.Ledger.Attempts(ctx, r.Job)
	if err != nil {
		log.Warn().Err(err).Msg("attempts not read; the reconciler will announce the result")
		return false
	}
	r.Attempts = tries
	return true
}

// retryAfter grows with the attempts and is spread, so that jobs which failed
// together do not return together.
func retryAfter(attempt int) time.Duration {
	return jitter(min(time.Second<<min(attempt-1, 6), time.Minute))
}

// jitter spreads a pause over 75 to 125 percent.
func jitter(d time.Duration) time.Duration {
	return d*3/4 + rand.N(max(d/2, 1))
}
