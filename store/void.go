package store

import (
	"context"

	"github.com/jackc/pgx/v5"

	"airlock/job"
)

// voidSQL tells of each row whether a claim of it would be answered that it
// needs no run.
const voidSQL = `
	SELECT CASE WHEN j.id IS NULL
	    THEN coalesce(r.id < airlock_id_floor((SELECT refused_before FROM retention)), false)
	        AND NOT EXISTS (SELECT FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
	            WHERE i.inhparent = 'jobs'::regclass AND c.relname = 'jobs_' || r.month)
	    ELSE j.state IN ('finished', 'dead') OR j.generation > r.generation OR j.state = 'retry_wait' AND j.not_before > now()
	    END
	FROM unnest($1::uuid[], $2::integer[], $3::text[]) WITH ORDINALITY AS r (id, generation, month, position)
	LEFT JOIN jobs j ON j.id = r.id
	ORDER BY r.position`

// Void tells of each queued job whether its message is of no use any more: the
// job has ended, was dropped, is in the queue anew, or will be when its time
// has come. A job that is not known yet is not void.
func (s *Store) Void(ctx context.Context, queued []job.Queued) ([]bool, error) {
	ids, generations, months := make([][16]byte, len(queued)), make([]int, len(queued)), make([]string, len(queued))
	for i, q := range queued {
		ids[i], generations[i], months[i] = [16]byte(q.Job.ID), q.Generation, q.Job.ID.Time().UTC().Format("2006_01")
	}
	return collect(ctx, s, "look for void messages", pgx.RowTo[bool], voidSQL, ids, generations, months)
}
