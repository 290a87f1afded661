package store

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"airlock/job"
)

// cancelSQL cancels the jobs of the CTE named found. Waiting ones end at once;
// running ones are marked, for their worker to kill.
const cancelSQL = `ended AS (
		    UPDATE jobs SET
		        cancel_requested = true,
		        state = CASE jobs.state WHEN 'running' THEN 'running' ELSE 'finished' END,
		        status = CASE jobs.state WHEN 'running' THEN NULL ELSE 'cancelled' END,
		        ended_at = CASE jobs.state WHEN 'running' THEN NULL ELSE now() END,
		        ended_by = CASE jobs.state WHEN 'running' THEN NULL ELSE 0 END,
		        publish_due = NULL
		    FROM found
		    WHERE jobs.id = found.id AND jobs.state IN ('queued', 'retry_wait', 'running')
		    RETURNING jobs.id, jobs.state, generation
		), told AS (
		    INSERT INTO announcements (job, ended_at)
		    SELECT id, now() FROM ended WHERE state = 'finished'
		    ON CONFLICT (job) DO UPDATE SET ended_at = excluded.ended_at
		), noted AS (
		    INSERT INTO attempts (job, number, generation, worker, backend, outcome, started_at, ended_at, status, error_type, error_message)
		    SELECT id, 0, generation, '', '', 'finished', now(), now(), 'cancelled', 'cancelled', 'cancelled while it waited'
		    FROM ended
		    WHERE state = 'finished'
		)
		SELECT state FROM ended`

// Cancel cancels one job and returns where it then stands: finished if it
// waited or had ended already, running if its worker is to kill it. A job that
// has ended stays as it is. ErrNotFound if the tenant has no such job, which
// may still be on its way into the database.
func (s *Store) Cancel(ctx context.Context, tenant string, id job.ID) (job.State, error) {
	state, err := one(ctx, s, "cancel", pgx.RowTo[job.State], `
		WITH found AS (
		    SELECT id FROM jobs WHERE tenant = $1 AND id = $2 FOR NO KEY UPDATE
		), `+cancelSQL, tenant, [16]byte(id))
	if errors.Is(err, ErrNotFound) {
		return one(ctx, s, "cancel", pgx.RowTo[job.State],
			`SELECT state FROM jobs WHERE tenant = $1 AND id = $2`, tenant, [16]byte(id))
	}
	return state, err
}

// cancelChunk is how many jobs one transaction of CancelBatch locks.
const cancelChunk = 1000

// CancelBatch cancels every job of a batch and returns how many of its jobs
// then stand where. ErrNotFound if the tenant has no such batch.
func (s *Store) CancelBatch(ctx context.Context, tenant, batch string) (map[job.State]int, error) {
	for {
		moved, err := collect(ctx, s, "cancel batch", pgx.RowTo[job.State], `
			WITH found AS (
			    SELECT id
			    FROM jobs j
			    WHERE `+ofTenant+` AND batch = $2
			        AND (state IN ('queued', 'retry_wait') OR state = 'running' AND NOT cancel_requested)
			    ORDER BY tenant, id
			    LIMIT $3
			    FOR NO KEY UPDATE
			), `+cancelSQL, tenant, batch, cancelChunk)
		if err != nil {
			return nil, err
		}
		if len(moved) == 0 {
			break
		}
	}
	counts, err := s.Batch(ctx, tenant, batch)
	return counts.States, err
}
