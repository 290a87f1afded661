package worker

import (
	"time"

	"airlock/job"
)

// wedgedAfter is how much longer than its clocks allow an attempt may take to
// start and to be cleared away. A backend that does not return by then is held
// to be stuck: were its lease renewed for ever, nobody else would ever have the
// job.
const wedgedAfter = 5 * time.Minute

// wedged reports whether the guest should be long gone.
func (l *lease) wedged(now time.Time) bool {
	limits := l.attempt.Job.Limits
	return !l.settled.Load() && now.Sub(l.attempt.Claimed) > limits.Wall.Std()+limits.ToolTime.Std()+wedgedAfter
}

// giveUpWedged leaves the leases of stuck attempts to run out, and returns the
// others. What comes of a stuck one later is silent.
func (w *Worker) giveUpWedged(leases []*lease) (alive []*lease) {
	now := time.Now()
	for _, l := range leases {
		if !l.wedged(now) {
			alive = append(alive, l)
			continue
		}
		if l.given.CompareAndSwap(false, true) {
			w.cfg.Log.Error().Str(fieldJob, l.attempt.Job.ID.String()).Int(fieldAttempt, l.attempt.Number).Str(fieldBackend, l.attempt.Backend).
				Msg("guest does not end: its lease is left to run out")
		}
		l.end(job.ErrLeaseLost)
	}
	return alive
}
