package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"airlock/job"
)

// errUnplaceable is the type of the error of jobs that no worker could run.
const errUnplaceable = "unplaceable"

// Waiting counts the jobs that wait in the queue, by lane, and were made
// longer than settled ago: what the queue should hold, apart from jobs that
// are on their way into the one or the other just now.
func (s *Store) Waiting(ctx context.Context, settled time.Duration) (map[string]int, error) {
	type count struct {
		lane string
		jobs int
	}
	rows, err := collect(ctx, s, "count waiting jobs", func(row pgx.CollectableRow) (c count, err error) {
		err = row.Scan(&c.lane, &c.jobs)
		return c, err
	}, `
		SELECT lane, count(*)
		FROM jobs
		WHERE state = 'queued' AND publish_due IS NULL AND id < airlock_id_floor(now() - $1::interval)
		GROUP BY lane`, settled)
	counts := map[string]int{}
	for _, c := range rows {
		counts[c.lane] = c.jobs
	}
	return counts, err
}

// OldestWaiting says of each lane with a waiting job when the oldest of them
// entered the queue; of 300 lanes at most. What it costs does not grow with
// what waits: it takes one step down an index for each lane.
func (s *Store) OldestWaiting(ctx context.Context) (map[string]time.Time, error) {
	type oldest struct {
		lane  string
		since time.Time
	}
	rows, err := collect(ctx, s, "look for the oldest jobs", func(row pgx.CollectableRow) (o oldest, err error) {
		err = row.Scan(&o.lane, &o.since)
		return o, err
	}, `
		WITH RECURSIVE lanes AS (
		    (SELECT lane FROM jobs WHERE state = 'queued' AND publish_due IS NULL ORDER BY lane LIMIT 1)
		    UNION ALL
		    SELECT (
		        SELECT j.lane
		        FROM jobs j
		        WHERE j.state = 'queued' AND j.publish_due IS NULL AND j.lane > lanes.lane
		        ORDER BY j.lane
		        LIMIT 1
		    )
		    FROM lanes
		    WHERE lanes.lane IS NOT NULL
		)
		SELECT lanes.lane, first.queued_at
		FROM lanes
		CROSS JOIN LATERAL (
		    SELECT j.queued_at
		    FROM jobs j
		    WHERE j.state = 'queued' AND j.publish_due IS NULL AND j.lane = lanes.lane
		    ORDER BY j.id
		    LIMIT 1
		) first
		WHERE lanes.lane IS NOT NULL
		LIMIT 300`)
	since := map[string]time.Time{}
	for _, o := range rows {
		since[o.lane] = o.since
	}
	return since, err
}

// RebuildLane owes the queue up to limit waiting jobs of a lane anew, the
// oldest first, with the next generation, for when the queue has lost their
// messages. TakeDue then returns them. A message that was not lost is
// superseded. Jobs it has taken it does not take again before Republished. It
// returns how many it took.
func (s *Store) RebuildLane(ctx context.Context, lane string, settled time.Duration, limit int) (int, error) {
	done, err := s.exec(ctx, "rebuild lane", `
		WITH found AS (
		    SELECT id
		    FROM jobs
		    WHERE lane = $1 AND state = 'queued' AND publish_due IS NULL AND id < airlock_id_floor(now() - $2::interval)
		    ORDER BY id
		    LIMIT $3
		    FOR NO KEY UPDATE SKIP LOCKED
		)
		UPDATE jobs SET generation = generation + 1, publish_due = now()
		FROM found
		WHERE jobs.id = found.id AND jobs.state = 'queued' AND jobs.publish_due IS NULL`, lane, settled, limit)
	return int(done.RowsAffected()), err
}

// BuryUnplaceable makes up to limit jobs of a lane dead that have waited for
// longer than waited, since no worker can run them, and returns how many. Their
// input is kept for Requeue.
//
// The end is an attempt of its own, without a worker: a job may be requeued and
// buried again.
func (s *Store) BuryUnplaceable(ctx context.Context, lane string, waited time.Duration, limit int) (int, error) {
	done, err := s.exec(ctx, "bury unplaceable jobs", `
		WITH found AS (
		    SELECT id
		    FROM jobs
		    WHERE lane = $1 AND state = 'queued' AND publish_due IS NULL AND greatest(queued_at, not_before) < now() - $2::interval
		    ORDER BY id
		    LIMIT $3
		    FOR NO KEY UPDATE SKIP LOCKED
		), ended AS (
		    UPDATE jobs SET state = 'dead', status = 'infra_error', attempt = attempt + 1, ended_at = now(), ended_by = attempt + 1
		    FROM found
		    WHERE jobs.id = found.id AND jobs.state = 'queued'
		    RETURNING jobs.id, attempt, generation
		), told AS (
		    INSERT INTO announcements (job, ended_at)
		    SELECT id, now() FROM ended
		    ON CONFLICT (job) DO UPDATE SET ended_at = excluded.ended_at
		)
		INSERT INTO attempts (job, number, generation, worker, backend, outcome, started_at, ended_at, status, error_type, error_message)
		SELECT id, attempt, generation, '', '', 'failed', now(), now(), 'infra_error', $4::text::bytea, convert_to($5, 'UTF8')
		FROM ended`, lane, waited, limit, errUnplaceable, unplaceableMessage(lane, waited))
	return int(done.RowsAffected()), err
}

func unplaceableMessage(lane string, waited time.Duration) string {
	return "no worker could run it for " + waited.String() + " (lane " + job.Printable(lane, 80) + "): start one that can, and requeue it"
}

// forgetWorkers is how long a worker that is gone stays listed.
const forgetWorkers = 30 * 24 * time.Hour

// Sweep removes rows that serve nobody any more, and returns how many: workers
// that were last seen a month ago, and announcements of jobs that are gone.
func (s *Store) Sweep(ctx context.Context) (int, error) {
	workers, err := s.exec(ctx, "sweep workers", `DELETE FROM workers WHERE seen_at < now() - $1::interval`, forgetWorkers)
	if err != nil {
		return 0, err
	}
	orphans, err := s.exec(ctx, "sweep announcements", `
		DELETE FROM announcements n
		WHERE n.ended_at < now() - interval '1 hour' AND NOT EXISTS (SELECT FROM jobs j WHERE j.id = n.job)`)
	if err != nil {
		return 0, err
	}
	approvals, err := s.settleApprovals(ctx)
	return int(workers.RowsAffected()+orphans.RowsAffected()) + approvals, err
}
