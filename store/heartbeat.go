package store

import (
	"context"

	"github.com/jackc/pgx/v5"

	"airlock/job"
)

// Heartbeat extends the leases that worker still holds, by job.Lease from now
// on, and returns them. What is missing from the answer is lost: its guest is
// to be killed, and nothing is to be written for it.
func (s *Store) Heartbeat(ctx context.Context, worker string, held []job.Holding) ([]job.Heartbeat, error) {
	if len(held) == 0 {
		return nil, nil
	}
	ids, attempts := make([][16]byte, len(held)), make([]int32, len(held))
	for i, h := range held {
		ids[i], attempts[i] = [16]byte(h.Job), int32(h.Attempt)
	}
	// Rows are locked in the order in which every writer of this package
	// locks them.
	return collect(ctx, s, "extend leases", scanHeartbeat, `
		WITH held AS (
		    SELECT j.id
		    FROM unnest($1::uuid[], $2::integer[]) AS h (id, attempt)
		    JOIN jobs j ON j.id = h.id AND j.attempt = h.attempt
		    WHERE j.state = 'running' AND j.worker = $3
		    ORDER BY j.id
		    FOR NO KEY UPDATE OF j
		)
		UPDATE jobs SET lease_until = now() + $4::interval
		FROM held
		WHERE jobs.id = held.id
		RETURNING jobs.id, jobs.attempt, jobs.cancel_requested`,
		ids, attempts, textColumn(worker), job.Lease)
}

func scanHeartbeat(row pgx.CollectableRow) (job.Heartbeat, error) {
	var beat job.Heartbeat
	var id [16]byte
	err := row.Scan(&id, &beat.Attempt, &beat.CancelRequested)
	beat.Job = job.ID(id)
	return beat, err
}
