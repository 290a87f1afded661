package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"airlock/job"
)

const (
	// lostGrace is how long after the end of its lease a job is taken from
	// its worker: more than a heartbeat under way takes.
	lostGrace = 2 * time.Second
	// confirmWithin is how long after TakeDue a job without Republished is
	// taken again.
	confirmWithin = 30 * time.Second
)

// Reasons of a Republish.
const (
	reasonRetry       = "retry"
	reasonDue         = "due"
	reasonLost        = "lease_expired"
	reasonRequeued    = "requeued"
	reasonUnconfirmed = "unconfirmed"
)

// lostSQL takes running jobs whose lease has ended from their workers. Their
// attempts are lost. The third death in a row makes a job dead as
// suspected_poison, the last of its failures as worker_lost, which is then its
// reason here; else it is queued with the next generation.
const lostSQL = `
WITH found AS (
    SELECT id
    FROM jobs
    WHERE state = 'running' AND lease_until < now() - $2::interval
    ORDER BY id
    LIMIT $1
    FOR NO KEY UPDATE SKIP LOCKED
), judged AS (
    SELECT
        id, attempt,
        CASE WHEN deaths + 1 >= $3 THEN 'suspected_poison'
            WHEN failures + 1 >= max_attempts THEN 'worker_lost' END AS buried
    FROM jobs
    WHERE id IN (SELECT id FROM found)
), moved AS (
    UPDATE jobs SET
        deaths = deaths + 1, failures = failures + 1, lease_until = NULL,
        state = CASE WHEN buried IS NULL THEN 'queued' ELSE 'dead' END,
        generation = CASE WHEN buried IS NULL THEN generation + 1 ELSE generation END,
        publish_due = CASE WHEN buried IS NULL THEN now() + $4::interval END,
        status = CASE WHEN buried IS NOT NULL THEN 'infra_error' END,
        ended_at = CASE WHEN buried IS NOT NULL THEN now() END,
        ended_by = CASE WHEN buried IS NOT NULL THEN jobs.attempt END
    FROM judged
    WHERE jobs.id = judged.id AND jobs.state = 'running' AND jobs.attempt = judged.attempt
    RETURNING jobs.id, jobs.attempt, jobs.generation, jobs.spec, jobs.state, jobs.worker, jobs.deaths, judged.buried
), marked AS (
    UPDATE attempts SET
        outcome = 'lost', ended_at = now(), status = 'infra_error',
        error_type = coalesce(buried, 'worker_lost')::bytea,
        error_message = CASE buried
            WHEN 'suspected_poison' THEN 'each of the ' || moved.deaths || ' workers that ran this job stopped answering'
            ELSE 'the worker stopped answering' END::bytea,
        usage = '{}'
    FROM moved
    WHERE attempts.job = moved.id AND attempts.number = moved.attempt AND attempts.outcome = 'running'
), told AS (
    INSERT INTO announcements (job, ended_at)
    SELECT id, now() FROM moved WHERE buried IS NOT NULL
    ON CONFLICT (job) DO UPDATE SET ended_at = excluded.ended_at
)
SELECT id, generation, spec, coalesce(buried, $5), buried IS NOT NULL FROM moved`

// dueSQL queues jobs whose next try is due.
const dueSQL = `
WITH found AS (
    SELECT id
    FROM jobs
    WHERE state = 'retry_wait' AND not_before <= now()
    ORDER BY not_before
    LIMIT $1
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE jobs SET state = 'queued', generation = generation + 1, publish_due = now() + $2::interval
FROM found
WHERE jobs.id = found.id AND jobs.state = 'retry_wait'
RETURNING jobs.id, generation, spec, CASE WHEN failures > 0 THEN $3 ELSE $4 END, false`

// unconfirmedSQL finds jobs that were queued and perhaps never published.
const unconfirmedSQL = `
WITH found AS (
    SELECT id
    FROM jobs
    WHERE publish_due <= now()
    ORDER BY publish_due
    LIMIT $1
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE jobs SET publish_due = now() + $2::interval
FROM found
WHERE jobs.id = found.id AND jobs.state = 'queued' AND jobs.publish_due <= now()
RETURNING jobs.id, generation, spec, $3::text, false`

// TakeDue moves up to limit jobs of each sort that are to be published again
// and returns them: jobs whose next try is due, jobs whose worker stopped
// answering, and jobs that it returned before and that Republished did not
// confirm in time. Those that are out of tries are made dead instead, to be
// announced, and returned as Buried. Each other job is to be published and then
// confirmed.
func (s *Store) TakeDue(ctx context.Context, limit int) ([]job.Republish, error) {
	lost, err := s.republishes(ctx, "take lost jobs", lostSQL, limit, lostGrace, maxDeaths, confirmWithin, reasonLost)
	if err != nil {
		return nil, err
	}
	// What was taken must be returned even if the rest fails; what was not
	// returned is found again as unconfirmed.
	due, err := s.republishes(ctx, "take due jobs", dueSQL, limit, confirmWithin, reasonRetry, reasonDue)
	if err != nil {
		s.log.Warn().Err(err).Msg("due jobs not taken")
		return lost, nil
	}
	again, err := s.republishes(ctx, "take unconfirmed jobs", unconfirmedSQL, limit, confirmWithin, reasonUnconfirmed)
	if err != nil {
		s.log.Warn().Err(err).Msg("unconfirmed jobs not taken")
	}
	return append(append(lost, due...), again...), nil
}

// Republished confirms that a job which TakeDue or Requeue returned is in the
// queue. It may be repeated, and comes too late without harm.
func (s *Store) Republished(ctx context.Context, id job.ID, generation int) error {
	_, err := s.exec(ctx, "confirm publication",
		`UPDATE jobs SET publish_due = NULL WHERE id = $1 AND generation = $2 AND publish_due IS NOT NULL`,
		[16]byte(id), generation)
	return err
}

// republishes runs a statement that moves jobs and returns them.
func (s *Store) republishes(ctx context.Context, act, sql string, args ...any) ([]job.Republish, error) {
	rows, err := collect(ctx, s, act, scanMoved, sql, args...)
	if err != nil {
		return nil, err
	}
	all := make([]job.Republish, 0, len(rows))
	for _, row := range rows {
		j, err := decodeSpec(row.spec)
		if err != nil {
			s.log.Error().Err(err).Stringer("job", row.id).Msg("stored job cannot be read")
			continue
		}
		all = append(all, job.Republish{Job: j, Generation: row.generation, Reason: row.reason, Buried: row.buried})
	}
	return all, nil
}

type movedRow struct {
	id         job.ID
	generation int
	spec       []byte
	reason     string
	buried     bool
}

func scanMoved(row pgx.CollectableRow) (movedRow, error) {
	var m movedRow
	var id [16]byte
	err := row.Scan(&id, &m.generation, &m.spec, &m.reason, &m.buried)
	m.id = job.ID(id)
	return m, err
}

// decodeSpec reads a job that this package has stored.
func decodeSpec(spec []byte) (*job.Job, error) {
	var j job.Job
	if err := job.DecodeStrict(spec, &j); err != nil {
		return nil, err
	}
	return &j, nil
}

// ExpireOverdue ends up to limit waiting jobs whose deadline has passed, with
// status expired, and returns how many. Running jobs are their worker's.
func (s *Store) ExpireOverdue(ctx context.Context, limit int) (int, error) {
	done, err := s.exec(ctx, "expire jobs", `
		WITH found AS (
		    SELECT id
		    FROM jobs
		    WHERE state IN ('queued', 'retry_wait') AND deadline <= now()
		    ORDER BY deadline
		    LIMIT $1
		    FOR NO KEY UPDATE SKIP LOCKED
		), ended AS (
		    UPDATE jobs SET state = 'finished', status = 'expired', ended_at = now(), ended_by = 0, publish_due = NULL
		    FROM found
		    WHERE jobs.id = found.id AND jobs.state IN ('queued', 'retry_wait')
		    RETURNING jobs.id, generation, deadline
		), `+endWaitingSQL+`
		SELECT id, 0, generation, '', '', 'finished', now(), now(), 'expired', 'expired',
		    convert_to('the deadline ' || to_char(deadline, 'YYYY-MM-DD HH24:MI:SSOF') || ' passed before a worker took the job', 'UTF8')
		FROM ended`, limit)
	return int(done.RowsAffected()), err
}

// endWaitingSQL follows a CTE named ended, whose jobs have ended without an
// attempt, and needs a SELECT of the columns it names.
const endWaitingSQL = `told AS (
		    INSERT INTO announcements (job, ended_at)
		    SELECT id, now() FROM ended
		    ON CONFLICT (job) DO UPDATE SET ended_at = excluded.ended_at
		)
		INSERT INTO attempts (job, number, generation, worker, backend, outcome, started_at, ended_at, status, error_type, error_message)`

// Unannounced returns up to limit results that were not marked by Announced,
// oldest first: those that ended longer than olderThan ago, which their worker
// had time to announce, and those that no worker ends, at once.
func (s *Store) Unannounced(ctx context.Context, olderThan time.Duration, limit int) ([]*job.Result, error) {
	return s.results(ctx, "read unannounced results", unannouncedSQL, max(olderThan, 0), limit)
}

// unannouncedSQL reads what is owed, oldest first, and only then looks its
// results up: keeps Postgres from beginning with all attempts that
// there are, which a plan made while there were few would do for ever. A
// thousand more than are wanted are read, to see past those that their own
// workers are announcing at this moment.
const unannouncedSQL = `
WITH owed AS MATERIALIZED (
    SELECT job, ended_at FROM announcements ORDER BY ended_at LIMIT $2 + 1000
)
SELECT ` + resultColumns + `
FROM owed n
CROSS JOIN LATERAL (
    SELECT id, key, tenant, batch, ended_at, ended_by FROM jobs WHERE id = n.job OFFSET 0
) AS j
CROSS JOIN LATERAL (
    SELECT
        number, worker, backend, outcome, status, value, lossy, error_type, error_message, error_traceback,
        stdout, stdout_bytes, stdout_truncated, stderr, stderr_bytes, stderr_truncated,
        exit_code, signal, tool_calls, usage, facts, audit_head
    FROM attempts WHERE job = n.job AND number = j.ended_by OFFSET 0
) AS a
WHERE n.ended_at <= now() - $1::interval OR a.worker = '' OR a.outcome = 'lost'
ORDER BY n.ended_at
LIMIT $2`
