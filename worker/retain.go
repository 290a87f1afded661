package worker

import (
	"context"
	"time"

	"airlock/job"
)

const (
	// retireEvery is how often old history is looked for; it comes of age once
	// a month.
	retireEvery = time.Hour
	// retireAgain is when a month is tried again whose tables were in use.
	retireAgain = time.Minute
)

// retire drops the history that is older than what is kept, when it is time.
func (i *inspector) retire(ctx context.Context) {
	if i.Retain <= 0 || time.Now().Before(i.retireAt) {
		return
	}
	done, err := i.Backlog.Retire(ctx, i.Retain)
	i.retireAt = time.Now().Add(retireEvery)
	if err != nil {
		i.warn(ctx, err, "old history not dropped")
		return
	}
	for _, m := range done.Months {
		i.tellMonth(m)
		if m.Kept == job.KeptBusy {
			i.retireAt = time.Now().Add(retireAgain)
		}
	}
	if done.Strays > 0 {
		i.Log.Info().Int(fieldCount, done.Strays).Dur("retain", i.Retain).Msg("old jobs outside of all months deleted")
	}
	i.Decisions.add(decidedRetired, done.Gone())
}

func (i *inspector) tellMonth(m job.RetiredMonth) {
	if m.Kept == "" {
		i.Decisions.add(decidedMonths, 1)
		i.Log.Info().Str("month", m.Name).Int64(fieldCount, m.Jobs).Int64("dead", m.Dead).Stringer("size", m.Bytes).
			Dur("retain", i.Retain).Msg("month of history dropped")
		return
	}
	// Said once for each reason: a job may stay open for months.
	if i.keptMonths[m.Name] != m.Kept {
		i.keptMonths[m.Name] = m.Kept
		i.Log.Warn().Str("month", m.Name).Str(fieldReason, m.Kept).Int64(fieldCount, m.Jobs).
			Msg("month of history is old and not dropped yet")
	}
}
