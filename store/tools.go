package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// statJobs bounds how many of a tenant's newest jobs ToolStats reads the calls
// of, so that the answer does not take the longer the more was run.
const statJobs = 20_000

// ToolStat is how the calls of one tool went.
type ToolStat struct {
	Namespace, Name string
	// Calls are those that left the worker and have ended, Errors those of
	// them that brought no answer in time, or an error.
	Calls, Errors int
	// P50 and P99 are of the time to the answer, errors included.
	P50, P99 time.Duration
}

// ToolStats sums up the calls of a tenant's jobs made since then, of one
// namespace unless that is "", and of the newest 20,000 jobs only.
func (s *Store) ToolStats(ctx context.Context, tenant, namespace string, since time.Time) ([]ToolStat, error) {
	return collect(ctx, s, "sum up tool calls", scanToolStat, `
		WITH recent AS MATERIALIZED (
		    SELECT id
		    FROM jobs
		    WHERE tenant = $1 AND id >= airlock_id_floor($2)
		    ORDER BY id DESC
		    LIMIT $4
		)
		SELECT
		    c.namespace, c.name, count(*), count(*) FILTER (WHERE c.state <> 'ok'),
		    percentile_cont(ARRAY[0.5, 0.99]) WITHIN GROUP (ORDER BY extract(epoch FROM c.ended_at - c.started_at)::double precision)
		FROM recent
		JOIN tool_calls c ON c.job = recent.id
		WHERE c.state IN ('ok', 'failed', 'late') AND ($3 = '' OR c.namespace = $3)
		GROUP BY c.namespace, c.name`, tenant, since, namespace, statJobs)
}

func scanToolStat(row pgx.CollectableRow) (ToolStat, error) {
	var t ToolStat
	var seconds []float64
	if err := row.Scan(&t.Namespace, &t.Name, &t.Calls, &t.Errors, &seconds); err != nil {
		return t, err
	}
	if len(seconds) == 2 {
		t.P50, t.P99 = span(seconds[0]), span(seconds[1])
	}
	return t, nil
}

// span is a number of seconds as the database's clock measured them.
func span(seconds float64) time.Duration {
	return time.Duration(seconds * float64(time.Second)).Round(time.Microsecond)
}
