package store

import (
	"context"

	"airlock/job"
)

// queuedRow is a queued job ready for its columns.
type queuedRow struct {
	job.Queued
	specRow
}

// recordSQL inserts what is new. A job whose key is another job's is left to
// its claim, which ends it with a reason.
var recordSQL = perKeys(func(k keys) string {
	return `
WITH r AS (
    SELECT * FROM ` + jobShape.source() + `
)` + k.owners + `
INSERT INTO jobs (` + jobColumns + `, state)
SELECT ` + jobValues + `, CASE WHEN not_before > now() THEN 'retry_wait' ELSE 'queued' END
FROM r
WHERE ` + k.free + `
ORDER BY id
ON CONFLICT (id) DO NOTHING`
})

// RecordQueued makes rows for jobs that entered the queue, unless they have
// one. A job that the database refuses is logged and left out, and costs the
// others nothing. Its error is ErrUnreachable, or a caller's ended context;
// then any part may have been recorded, and all of it may be repeated.
func (s *Store) RecordQueued(ctx context.Context, queued []job.Queued) error {
	rows := make([]queuedRow, 0, len(queued))
	for _, q := range queued {
		row, err := newSpecRow(q.Job, q.Spec)
		if err != nil {
			s.logUnrecorded(q, err)
			continue
		}
		rows = append(rows, queuedRow{Queued: q, specRow: row})
	}
	for len(rows) > 0 {
		n := countWithin(rows, maxBatchBytes)
		if err := s.record(ctx, rows[:n]); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// countWithin is how many rows fit into total bytes, at least one.
func countWithin(rows []queuedRow, total int) int {
	n := 0
	for n < len(rows) && (n == 0 || total > 0) {
		total -= len(rows[n].spec)
		n++
	}
	return n
}

// record halves a refused batch until the refused rows stand alone.
func (s *Store) record(ctx context.Context, rows []queuedRow) error {
	err := s.insertQueued(ctx, rows)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil || isUnreachable(err):
		return err
	case len(rows) == 1:
		s.logUnrecorded(rows[0].Queued, err)
		return nil
	}
	half := len(rows) / 2
	if err := s.record(ctx, rows[:half]); err != nil {
		return err
	}
	return s.record(ctx, rows[half:])
}

func (s *Store) logUnrecorded(q job.Queued, err error) {
	s.log.Error().Err(err).Stringer("job", q.Job.ID).Msg("queued job cannot be recorded")
}

func (s *Store) insertQueued(ctx context.Context, queued []queuedRow) error {
	rows, keyed := make([][]any, len(queued)), false
	for i, q := range queued {
		keyed = keyed || q.keyDigest != nil
		rows[i] = jobRow(q.Job, q.specRow, q.At, q.Generation)
	}
	var err error
	for try := 0; try < maxTransient; try++ {
		if _, err = s.exec(ctx, "record queued jobs", recordSQL[keyed], jobShape.arrays(rows)...); !isTransient(err) {
			return err
		}
	}
	return err
}
