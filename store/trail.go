package store

import (
	"context"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/jackc/pgx/v5"

	"airlock/job"
)

// Trail is what happened to a job, for those who follow it.
type Trail struct {
	Record job.Record
	// Startup is how long the guests of attempts took to be ready, where that
	// is known.
	Startup map[int]time.Duration
	// Calls are by attempt and number, without what was said in them.
	Calls []job.Call
}

// Trail returns what happened to a job, its calls from the given attempt on.
// It is read in an order in which what is missing is newer than the rest.
// ErrNotFound if the tenant has no such job.
func (s *Store) Trail(ctx context.Context, tenant string, id job.ID, attempt int) (Trail, error) {
	record, err := s.Job(ctx, tenant, id)
	if err != nil {
		return Trail{}, err
	}
	t := Trail{Record: record, Startup: map[int]time.Duration{}}
	_, err = collect(ctx, s, "read startups", func(row pgx.CollectableRow) (struct{}, error) { return struct{}{}, t.startup(row) }, `
		SELECT number, usage
		FROM attempts
		WHERE job = $1 AND number >= $2 AND usage IS NOT NULL`, [16]byte(id), attempt)
	if err != nil {
		return Trail{}, err
	}
	t.Calls, err = collect(ctx, s, "read calls", scanCallBrief, `
		SELECT attempt, seq, namespace, name, state, code, started_at, ended_at, start_link, end_link
		FROM tool_calls
		WHERE job = $1 AND attempt >= $2
		ORDER BY attempt, seq`, [16]byte(id), attempt)
	return t, err
}

func (t *Trail) startup(row pgx.CollectableRow) error {
	var number int
	var raw []byte
	var usage job.Usage
	if err := row.Scan(&number, &raw); err != nil {
		return err
	}
	if err := json.Unmarshal(raw, &usage); err != nil {
		return fmt.Errorf("stored usage: %w", err)
	}
	if usage.Startup > 0 {
		t.Startup[number] = usage.Startup.Std()
	}
	return nil
}

func scanCallBrief(row pgx.CollectableRow) (job.Call, error) {
	var c job.Call
	var code *string
	var ended *time.Time
	var startLink, endLink *int
	err := row.Scan(&c.Attempt, &c.Seq, &c.Namespace, &c.Name, &c.State, &code, &c.Started, &ended, &startLink, &endLink)
	c.Code, c.Started, c.Ended = deref(code), c.Started.UTC(), deref(ended).UTC()
	c.StartLink, c.EndLink = deref(startLink), deref(endLink)
	return c, err
}

// Standing is where a job stands, in short.
type Standing struct {
	State   job.State
	Attempt int
	// Links is the last link of the newest attempt's chain of calls.
	Links int
}

// Standing is the cheapest look at a job. ErrNotFound if the tenant has no
// such job.
func (s *Store) Standing(ctx context.Context, tenant string, id job.ID) (Standing, error) {
	return one(ctx, s, "look at job", pgx.RowToStructByPos[Standing], `
		SELECT j.state, j.attempt, coalesce((
		    SELECT greatest(max(c.start_link), max(c.end_link)) FROM tool_calls c WHERE c.job = j.id AND c.attempt = j.attempt), 0)
		FROM jobs j
		WHERE j.tenant = $1 AND j.id = $2`, tenant, [16]byte(id))
}

// EndMark is a place in the order in which the jobs of a batch ended.
type EndMark struct {
	At  time.Time
	Job job.ID
}

// End says how a job of a batch ended.
type End struct {
	EndMark
	Key     string
	Status  job.Status
	Attempt int
	Error   *job.Error
}

// batchEndsSQL leaves out, unless asked for all, ends that one of an earlier
// time may still come before: a transaction's time is when it began, and it is
// seen when it has ended. Who writes has a transaction id; who began 10 s ago and
// has none does not write, since no statement of ours takes so long. One that has
// stood for a minute will not hold all up.
const batchEndsSQL = `
	SELECT j.id, j.ended_at, j.key, j.status, j.attempt, a.error_type, substring(a.error_message FROM 1 FOR 1000)
	FROM jobs j
	JOIN attempts a ON a.job = j.id AND a.number = j.ended_by
	WHERE j.tenant = $1 AND j.batch = $2 AND j.ended_at IS NOT NULL AND (j.ended_at, j.id) > ($3::timestamptz, $4::uuid)
	    AND ($5 OR j.ended_at < least(now() - interval '1 second', greatest(now() - interval '1 minute', (
	        SELECT coalesce(min(xact_start), now())
	        FROM pg_stat_activity
	        WHERE datname = current_database() AND (backend_xid IS NOT NULL OR xact_start > now() - interval '10 seconds')))))
	ORDER BY j.ended_at, j.id
	LIMIT $6`

// BatchEnds lists up to limit jobs of a batch in the order in which they ended,
// those after the mark. The newest, of the last second or so, are only among
// them with all, which is for a batch whose jobs have all ended: otherwise one
// may come before them later.
func (s *Store) BatchEnds(ctx context.Context, tenant, batch string, after EndMark, all bool, limit int) ([]End, error) {
	return collect(ctx, s, "read ends of batch", scanEnd, batchEndsSQL, tenant, batch, after.At, [16]byte(after.Job), all, limit)
}

func scanEnd(row pgx.CollectableRow) (End, error) {
	var e End
	var id [16]byte
	var key, kind, message []byte
	err := row.Scan(&id, &e.At, &key, &e.Status, &e.Attempt, &kind, &message)
	e.Job, e.At, e.Key, e.Error = job.ID(id), e.At.UTC(), string(key), shortError(kind, message)
	return e, err
}
