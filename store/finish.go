package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"airlock/job"
)

var finishShape = join(fenceShape, resultShape)

// finishSQL ends the jobs whose newest attempt is the row's and still holds
// them. The row of an attempt changes only if the row of its job did. A result
// that calls led to is not taken while the end of one is missing; the statement
// for results that none led to does not look, which takes a twentieth off.
var finishSQL = map[bool]string{
	false: finishStatement(""),
	true: finishStatement(`
        AND (r.tool_calls = 0 OR r.status = 'infra_error' OR NOT EXISTS (
            SELECT FROM tool_calls c WHERE c.job = r.job AND c.attempt = r.number AND c.state = 'started'))`),
}

func finishStatement(complete string) string {
	return `
WITH r AS (
    SELECT * FROM ` + finishShape.source() + `
), ended AS (
    UPDATE jobs SET
        state = CASE r.status WHEN 'infra_error' THEN 'dead' ELSE 'finished' END,
        status = r.status, ended_at = now(), ended_by = r.number, lease_until = NULL, publish_due = NULL
    FROM r
    WHERE jobs.id = r.job AND jobs.attempt = r.number AND jobs.state = 'running' AND jobs.worker = r.worker` + complete + `
    RETURNING jobs.id
), told AS (
    INSERT INTO announcements (job, ended_at)
    SELECT id, now() FROM ended
    ON CONFLICT (job) DO UPDATE SET ended_at = excluded.ended_at
)
UPDATE attempts SET outcome = 'finished', ended_at = now(), ` + setResult + `
FROM r
JOIN ended ON ended.id = r.job
WHERE attempts.job = r.job AND attempts.number = r.number
RETURNING attempts.job`
}

// finishItem is one result on its way through the committer.
type finishItem struct {
	attempt *job.Attempt
	result  *job.Result
	row     []any
	files   [][]any
	plain   bool // no jsonb copies
	done    bool
}

func (f *finishItem) size() int {
	size := len(f.result.Value) + len(f.result.Stdout) + len(f.result.Stderr) + 512
	for _, x := range f.result.Artifacts {
		size += len(x.Content)
	}
	return size
}

// Finish ends the job with the result of attempt a, in one transaction that
// checks the fence and owes an announcement. A result of status infra_error
// makes the job dead. It returns job.ErrFenced, having changed nothing, if a
// no longer holds the job. A repeat returns nil if the job was ended by a.
//
// It returns ErrOpenCall, having changed nothing, if the audit lacks the end of
// a call that the result may rest on; a result of status infra_error is taken
// nevertheless.
//
// a may be an attempt whose guest never started. linger is how long the
// transaction may be put off so that results which come by then share it; it
// begins at once when there are enough, or one comes that may not wait.
func (s *Store) Finish(ctx context.Context, a *job.Attempt, r *job.Result, linger time.Duration) error {
	item := &finishItem{attempt: a, result: r}
	if err := item.encode(); err != nil {
		return fmt.Errorf("finish: %w", err)
	}
	err := s.finishes.do(ctx, item, linger)
	if isBadData(err) && !item.plain {
		// jsonbColumn judged wrongly. The bytes are what counts.
		s.log.Error().Err(err).Stringer("job", a.Job.ID).Msg("result refused as jsonb, storing its bytes only")
		item.plain = true
		if err = item.encode(); err == nil {
			err = s.finishes.do(ctx, item, linger)
		}
	}
	if err != nil || item.done {
		return err
	}
	if err = s.endedBy(ctx, "finish", a); errors.Is(err, job.ErrFenced) && r.ToolCalls > 0 && s.checkFence(ctx, a) == nil {
		return fmt.Errorf("finish: %w", ErrOpenCall)
	}
	return err
}

func (f *finishItem) encode() error {
	columns, err := resultRow(f.result, f.plain)
	if err != nil {
		return err
	}
	f.row = append(fenceRow(f.attempt), columns...)
	f.files, err = artifactRows(f.attempt, f.result.Artifacts)
	return err
}

func (s *Store) commitFinishes(ctx context.Context, items []*finishItem) error {
	sortByJob(items, func(f *finishItem) job.ID { return f.attempt.Job.ID })
	batch := &pgx.Batch{}
	for _, round := range rounds(items, func(f *finishItem) []string { return []string{string(f.attempt.Job.ID[:])} }) {
		rows, byID := make([][]any, len(round)), map[job.ID]*finishItem{}
		var files [][]any
		for i, item := range round {
			item.done = false
			files = append(files, item.files...)
			rows[i], byID[item.attempt.Job.ID] = item.row, item
		}
		called := slices.ContainsFunc(round, func(f *finishItem) bool { return f.result.ToolCalls > 0 })
		batch.Queue(finishSQL[called], finishShape.arrays(rows)...).Query(func(rows pgx.Rows) error {
			return eachID(rows, func(id job.ID) { byID[id].done = true })
		})
		if len(files) > 0 {
			batch.Queue(artifactsSQL, artifactShape.arrays(files)...)
		}
	}
	return s.sendBatch(ctx, batch)
}

func eachID(rows pgx.Rows, do func(job.ID)) error {
	for rows.Next() {
		var id [16]byte
		if err := rows.Scan(&id); err != nil {
			return err
		}
		do(job.ID(id))
	}
	return rows.Err()
}

// endedBy returns nil if a's own end is what the job has, which is so when a
// finish is repeated, and job.ErrFenced otherwise.
func (s *Store) endedBy(ctx context.Context, act string, a *job.Attempt) error {
	_, err := one(ctx, s, act, pgx.RowTo[bool], `
		SELECT true
		FROM jobs j
		JOIN attempts t ON t.job = j.id AND t.number = j.ended_by
		WHERE j.id = $1 AND j.ended_by = $2 AND t.worker = $3 AND t.outcome IN ('finished', 'failed')`,
		[16]byte(a.Job.ID), a.Number, textColumn(a.Worker))
	if errors.Is(err, ErrNotFound) {
		return fmt.Errorf("%s: %w", act, job.ErrFenced)
	}
	return err
}

// retrySQL records a failure that is worth another try. The job waits for it;
// if this was the last, a failure of ours makes it dead, and nothing changes
// for one of the guest's own, which is then the job's result.
var retrySQL = `
WITH r AS (
    SELECT * FROM ` + finishShape.source() + `
), moved AS (
    UPDATE jobs SET
        failures = failures + 1,
        state = CASE WHEN failures + 1 >= max_attempts THEN 'dead' ELSE 'retry_wait' END,
        not_before = CASE WHEN failures + 1 >= max_attempts THEN not_before ELSE now() + $24::interval END,
        status = CASE WHEN failures + 1 >= max_attempts THEN 'infra_error' END,
        ended_at = CASE WHEN failures + 1 >= max_attempts THEN now() END,
        ended_by = CASE WHEN failures + 1 >= max_attempts THEN r.number END,
        lease_until = NULL, publish_due = NULL
    FROM r
    WHERE jobs.id = r.job AND jobs.attempt = r.number AND jobs.state = 'running' AND jobs.worker = r.worker
        AND (r.status = 'infra_error' OR failures + 1 < max_attempts)
    RETURNING jobs.id, jobs.state
), told AS (
    INSERT INTO announcements (job, ended_at)
    SELECT id, now() FROM moved WHERE state = 'dead'
    ON CONFLICT (job) DO UPDATE SET ended_at = excluded.ended_at
)
UPDATE attempts SET outcome = 'failed', ended_at = now(), ` + setResult + `
FROM r, moved
WHERE attempts.job = r.job AND attempts.number = r.number
RETURNING moved.state`

// Retry records that attempt a failed as r says, by our fault or in a way that
// the job's retry_on names, and returns where the job then stands: retry_wait,
// to be published by the reconciler once after has passed, or if this was the
// last of its attempts ended with r as its result: dead by our fault, else
// finished. It returns job.ErrFenced if a no longer holds the job; a repeat
// returns the job's state.
func (s *Store) Retry(ctx context.Context, a *job.Attempt, r *job.Result, after time.Duration) (job.State, error) {
	columns, err := resultRow(r, false)
	if err != nil {
		return "", fmt.Errorf("retry: %w", err)
	}
	ctx, cancel := written(ctx)
	defer cancel()
	args := append(finishShape.arrays([][]any{append(fenceRow(a), columns...)}), max(after, 0))
	state, err := one(ctx, s, "retry", pgx.RowTo[job.State], retrySQL, args...)
	if errors.Is(err, ErrNotFound) {
		state, err = s.failedAlready(ctx, a)
	}
	if errors.Is(err, job.ErrFenced) && r.Status != job.StatusInfraError {
		return job.StateFinished, s.Finish(ctx, a, r, 0)
	}
	return state, err
}

// failedAlready answers a repeated Retry.
func (s *Store) failedAlready(ctx context.Context, a *job.Attempt) (job.State, error) {
	state, err := one(ctx, s, "retry", pgx.RowTo[job.State], `
		SELECT j.state
		FROM jobs j
		JOIN attempts t ON t.job = j.id AND t.number = j.attempt
		WHERE j.id = $1 AND j.attempt = $2 AND t.worker = $3 AND t.outcome = 'failed'`,
		[16]byte(a.Job.ID), a.Number, textColumn(a.Worker))
	if errors.Is(err, ErrNotFound) {
		return "", fmt.Errorf("retry: %w", job.ErrFenced)
	}
	return state, err
}

// Release hands the job back as if it had not been claimed, except that the
// attempt's number is used up: it is queued with the same generation, so that
// the delivery given back can be claimed by another. It returns job.ErrFenced
// if a no longer holds the job; a repeat returns nil.
func (s *Store) Release(ctx context.Context, a *job.Attempt) error {
	ctx, cancel := written(ctx)
	defer cancel()
	id, worker := [16]byte(a.Job.ID), textColumn(a.Worker)
	done, err := s.exec(ctx, "release", `
		WITH freed AS (
		    UPDATE jobs SET state = 'queued', lease_until = NULL
		    WHERE id = $1 AND attempt = $2 AND state = 'running' AND worker = $3
		    RETURNING id
		)
		UPDATE attempts SET outcome = 'released', ended_at = now()
		FROM freed
		WHERE attempts.job = $1 AND attempts.number = $2`, id, a.Number, worker)
	if err != nil || done.RowsAffected() == 1 {
		return err
	}
	_, err = one(ctx, s, "release", pgx.RowTo[bool],
		`SELECT true FROM attempts WHERE job = $1 AND number = $2 AND worker = $3 AND outcome = 'released'`,
		id, a.Number, worker)
	if errors.Is(err, ErrNotFound) {
		return fmt.Errorf("release: %w", job.ErrFenced)
	}
	return err
}

// Announced records that the job's result has been published. It may be
// repeated. linger is as Finish has it.
func (s *Store) Announced(ctx context.Context, id job.ID, linger time.Duration) error {
	return s.announces.do(ctx, id, linger)
}

func (s *Store) commitAnnounced(ctx context.Context, ids []job.ID) error {
	rows := make([][16]byte, len(ids))
	for i, id := range ids {
		rows[i] = [16]byte(id)
	}
	batch := &pgx.Batch{}
	// A mark lost in a crash costs a second announcement of the same result,
	// which the queue drops; that is not worth a wait for the disk.
	batch.Queue(dontWaitSQL)
	batch.Queue(`DELETE FROM announcements WHERE job = ANY($1::uuid[])`, rows)
	return s.sendBatch(ctx, batch)
}
