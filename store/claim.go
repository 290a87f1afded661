package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"airlock/job"
)

const (
	// maxDeaths is how many workers a job may take with it.
	maxDeaths = 3
	// shortHold is the patience with a job that nobody holds any more but
	// that is not to be had at this moment: the reconciler is about to move
	// it.
	shortHold = 3 * time.Second
)

// claimItem is one claim on its way through the committer.
type claimItem struct {
	req  job.ClaimRequest
	row  specRow
	got  job.Claim
	done bool
}

func (c *claimItem) size() int { return len(c.row.spec) }

// Claim asks for the right to run a job and says what became of it, as
// job.Verdict documents. A job that the database does not know is recorded by
// its claim.
//
// One statement decides. A running job whose lease has ended is taken over,
// which counts as a death and a failure of its attempt; the last death or
// failure that a job has is left to TakeDue, which buries it, and the claim is
// Held for a moment.
//
// A claim whose answer was lost with the connection is made again by the same
// worker: the attempt that it never knew of is released, and counts as neither.
// So a worker must not claim a job that it runs.
//
// A job whose key belongs to another job never runs: it is recorded as
// finished, cancelled, with error type duplicate_key (same content) or
// key_conflict (other content) and a message that names the other, and the
// verdict is Ended. Its result is announced by the reconciler.
func (s *Store) Claim(ctx context.Context, req job.ClaimRequest) (job.Claim, error) {
	spec, err := req.Job.Encode()
	if err != nil {
		return job.Claim{}, fmt.Errorf("claim: encode job: %w", err)
	}
	row, err := newSpecRow(req.Job, spec)
	if err != nil {
		return job.Claim{}, fmt.Errorf("claim: %w", err)
	}
	if req.Generation < 1 {
		return job.Claim{}, fmt.Errorf("claim: generation %d is not positive", req.Generation)
	}
	item := &claimItem{req: req, row: row}
	err = s.claims.do(ctx, item, 0)
	if isCode(err, codeRetired) {
		return job.Claim{Verdict: job.Ended, Queued: req.Queued}, nil
	}
	if err != nil {
		return job.Claim{}, err
	}
	if item.done {
		return item.got, nil
	}
	return s.explainClaim(ctx, item)
}

var claimShape = join(jobShape, shape{"worker text", "backend text"})

// claimSQL decides claims. It returns a row for each job that was claimed, or
// put off because its time has not come; it changes nothing of the others.
//
// due is false while not_before lies ahead. A row known to have another
// content or tenant, a newer generation, a result, or another's live lease is
// left alone. publish_due is cleared: whoever claims has seen the message.
//
// The transaction does not wait for the disk, unless it put a job off: then the
// worker acknowledges its delivery. A claim that a crash of the server takes
// back had no effect that lasts: whatever comes of it (the start of a call, the
// end of the attempt) is a later commit, and a commit that reaches the disk
// takes all earlier ones with it. The worker is then fenced off, as if another
// had the job, and the delivery that it did not acknowledge comes again.
var claimSQL = perKeys(func(k keys) string {
	return `
WITH r AS (
    SELECT *, coalesce(not_before <= now(), true) AS due FROM ` + claimShape.source() + `
)` + k.owners + `, claimed AS (
    INSERT INTO jobs AS j (` + jobColumns + `, state, attempt, worker, lease_until)
    SELECT
        ` + jobValues + `,
        CASE WHEN due THEN 'running' ELSE 'retry_wait' END,
        due::integer,
        CASE WHEN due THEN worker END,
        CASE WHEN due THEN now() + ` + leaseInterval + ` END
    FROM r
    WHERE ` + k.free + `
    ORDER BY id
    ON CONFLICT (id) DO UPDATE SET
        state = CASE WHEN ` + rowDue + ` THEN 'running' ELSE 'retry_wait' END,
        attempt = j.attempt + (` + rowDue + `)::integer,
        worker = CASE WHEN ` + rowDue + ` THEN excluded.worker ELSE j.worker END,
        lease_until = CASE WHEN ` + rowDue + ` THEN now() + ` + leaseInterval + ` END,
        deaths = j.deaths + (j.state = 'running' AND NOT ` + rowOurs + `)::integer,
        failures = j.failures + (j.state = 'running' AND NOT ` + rowOurs + `)::integer,
        generation = excluded.generation,
        publish_due = NULL
    WHERE j.tenant = excluded.tenant
        AND j.content_digest = excluded.content_digest
        AND j.generation <= excluded.generation
        AND (j.state = 'queued'
            OR j.state = 'retry_wait' AND j.not_before <= now()
            OR j.state = 'running' AND ` + rowOurs + `
            OR j.state = 'running' AND j.lease_until <= now()
                AND j.deaths + 1 < ` + strconv.Itoa(maxDeaths) + ` AND j.failures + 1 < j.max_attempts)
    RETURNING j.id, j.attempt, j.state, j.queued_at, j.cancel_requested, j.deaths
), lost AS (
    UPDATE attempts SET
        outcome = CASE WHEN ours THEN 'released' ELSE 'lost' END, ended_at = now(),
        status = CASE WHEN NOT ours THEN 'infra_error' END,
        error_type = CASE WHEN NOT ours THEN 'worker_lost'::bytea END,
        error_message = CASE WHEN NOT ours THEN 'the worker stopped answering; another took the job over'::bytea END
    FROM (
        -- The statement sees the job as it was before.
        SELECT c.id, c.attempt, c.deaths = j.deaths AS ours
        FROM claimed c
        JOIN jobs j ON j.id = c.id
        WHERE c.state = 'running' AND c.attempt > 1
    ) AS taken
    WHERE attempts.job = taken.id AND attempts.number = taken.attempt - 1 AND attempts.outcome = 'running'
), begun AS (
    INSERT INTO attempts (job, number, generation, worker, backend, outcome, started_at)
    SELECT c.id, c.attempt, r.generation, r.worker, r.backend, 'running', now()
    FROM claimed c
    JOIN r ON r.id = c.id
    WHERE c.state = 'running'
)
SELECT
    id, attempt, state, queued_at, cancel_requested,
    CASE WHEN state <> 'running' THEN set_config('synchronous_commit', 'on', true) END
FROM claimed`
})

// rowOurs is whether whoever claims holds the job's lease already: it was not
// told of an earlier claim, since a worker asks for no job that it runs.
const rowOurs = `(j.worker = excluded.worker AND j.lease_until > now())`

// rowDue is whether the stored job's time has come. Its not_before is the
// claim's or, after a retry, later than that.
const rowDue = `coalesce(j.not_before <= now(), true)`

var leaseInterval = fmt.Sprintf("interval '%g seconds'", job.Lease.Seconds())

func (s *Store) commitClaims(ctx context.Context, items []*claimItem) error {
	sortByJob(items, func(c *claimItem) job.ID { return c.req.Job.ID })
	batch := &pgx.Batch{}
	batch.Queue(dontWaitSQL)
	for _, round := range rounds(items, (*claimItem).names) {
		rows, byID := make([][]any, len(round)), map[job.ID]*claimItem{}
		for i, item := range round {
			item.done, item.got = false, job.Claim{}
			rows[i], byID[item.req.Job.ID] = item.columns(), item
		}
		keyed := slices.ContainsFunc(round, func(c *claimItem) bool { return c.row.keyDigest != nil })
		batch.Queue(claimSQL[keyed], claimShape.arrays(rows)...).Query(func(rows pgx.Rows) error { return readClaims(rows, byID) })
	}
	return s.sendBatch(ctx, batch)
}

// names are the rows that the claim may change.
func (c *claimItem) names() []string {
	names := []string{string(c.req.Job.ID[:])}
	if c.row.keyDigest != nil {
		names = append(names, c.req.Job.Tenant+" "+string(c.row.keyDigest))
	}
	return names
}

func (c *claimItem) columns() []any {
	return append(jobRow(c.req.Job, c.row, c.req.Queued, c.req.Generation), textColumn(c.req.Worker), textColumn(c.req.Backend))
}

func readClaims(rows pgx.Rows, byID map[job.ID]*claimItem) error {
	for rows.Next() {
		var id [16]byte
		var got job.Claim
		var state job.State
		if err := rows.Scan(&id, &got.Attempt, &state, &got.Queued, &got.CancelRequested, nil); err != nil {
			return err
		}
		got.Verdict = job.Claimed
		if state != job.StateRunning {
			got = job.Claim{Verdict: job.Postponed, Queued: got.Queued}
		}
		got.Queued = got.Queued.UTC()
		item := byID[job.ID(id)]
		item.got, item.done = got, true
	}
	return rows.Err()
}

// standing is what stood in the way of a claim.
type standing struct {
	same       bool // tenant and content are the claim's
	state      job.State
	generation int
	early      bool
	left       time.Duration
	queued     time.Time
}

// explainClaim says why a claim got no row. It reads after the decision, so
// that what it reads may have moved on; a job that could be claimed by now is
// Held for a moment.
func (s *Store) explainClaim(ctx context.Context, item *claimItem) (job.Claim, error) {
	found, err := one(ctx, s, "claim", scanStanding, `
		SELECT
		    tenant = $2 AND content_digest = $3, state, generation, coalesce(not_before > now(), false),
		    coalesce(extract(EPOCH FROM lease_until - now()), 0)::double precision, queued_at
		FROM jobs
		WHERE id = $1`,
		[16]byte(item.req.Job.ID), item.req.Job.Tenant, item.row.digest)
	if errors.Is(err, ErrNotFound) && item.row.keyDigest != nil {
		return s.endDuplicate(ctx, item)
	}
	if errors.Is(err, ErrNotFound) {
		return job.Claim{Verdict: job.Held, LeaseLeft: shortHold}, nil
	}
	if err != nil {
		return job.Claim{}, err
	}
	return found.claim(item.req.Generation), nil
}

func scanStanding(row pgx.CollectableRow) (standing, error) {
	var st standing
	var seconds float64
	err := row.Scan(&st.same, &st.state, &st.generation, &st.early, &seconds, &st.queued)
	st.left = time.Duration(seconds * float64(time.Second))
	return st, err
}

func (st standing) claim(generation int) job.Claim {
	switch {
	case !st.same:
		return job.Claim{Verdict: job.Mismatched}
	case st.state.Ended():
		return job.Claim{Verdict: job.Ended, Queued: st.queued}
	case st.generation > generation:
		return job.Claim{Verdict: job.Superseded, Queued: st.queued}
	case st.state == job.StateRetryWait && st.early:
		return job.Claim{Verdict: job.Postponed, Queued: st.queued}
	}
	return job.Claim{Verdict: job.Held, Queued: st.queued, LeaseLeft: max(st.left, shortHold)}
}

// endDuplicate records a job that may not run because its key is another's.
func (s *Store) endDuplicate(ctx context.Context, item *claimItem) (job.Claim, error) {
	ctx, cancel := written(ctx)
	defer cancel()
	row := jobRow(item.req.Job, item.row, item.req.Queued, item.req.Generation)
	tag, err := s.exec(ctx, "end duplicate", `
		WITH r AS (
		    SELECT * FROM `+jobShape.source()+`
		), owner AS (
		    SELECT k.job, k.content_digest = r.content_digest AS same
		    FROM job_keys k
		    JOIN r ON k.tenant = r.tenant AND k.key_digest = r.key_digest AND k.job <> r.id
		), ended AS (
		    INSERT INTO jobs (`+jobColumns+`, state, status, ended_at, ended_by)
		    SELECT `+jobValues+`, 'finished', 'cancelled', now(), 0
		    FROM r
		    WHERE EXISTS (SELECT FROM owner)
		    ON CONFLICT (id) DO NOTHING
		    RETURNING id, ended_at, generation
		), told AS (
		    INSERT INTO announcements (job, ended_at) SELECT id, ended_at FROM ended ON CONFLICT (job) DO NOTHING
		)
		INSERT INTO attempts (job, number, generation, worker, backend, outcome, started_at, ended_at, status, error_type, error_message)
		SELECT
		    ended.id, 0, ended.generation, '', '', 'finished', now(), now(), 'cancelled',
		    CASE WHEN same THEN 'duplicate_key' ELSE 'key_conflict' END::bytea,
		    ('the key belongs to job ' || owner.job || CASE WHEN same THEN '' ELSE ', whose content is another' END)::bytea
		FROM ended, owner`, jobShape.arrays([][]any{row})...)
	if err != nil {
		return job.Claim{}, err
	}
	if tag.RowsAffected() == 0 {
		return job.Claim{Verdict: job.Held, LeaseLeft: shortHold}, nil
	}
	s.log.Warn().Stringer("job", item.req.Job.ID).Str("tenant", item.req.Job.Tenant).Msg("job ended: its key belongs to another job")
	return job.Claim{Verdict: job.Ended, Queued: item.req.Queued}, nil
}
