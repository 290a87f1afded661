package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/jackc/pgx/v5"

	"airlock/job"
)

// ErrDecided is wrapped by Decide's error when the request was decided
// otherwise, or nobody waits for a decision any more. The error says which.
var ErrDecided = errors.New("it cannot be decided any more")

// ErrAmbiguous is wrapped by Decide's error when the last digits of an id are
// those of several jobs.
var ErrAmbiguous = errors.New("several jobs have ids that end so")

// askSQL records that a call waits, unless its attempt has lost the job.
const askSQL = `
INSERT INTO approvals (job, attempt, seq, tenant, namespace, name, arguments, asked_at, expires_at)
SELECT r.job, r.number, $4, $5, $6, $7, $8, now(), now() + $9::interval
FROM (SELECT $1::uuid AS job, $2::integer AS number, $3::text AS worker) AS r
WHERE ` + holdsJob + `
ON CONFLICT (job, attempt, seq) DO NOTHING`

// AskApproval records that the call c waits for a person. When it returns nil
// the row is committed, and only then may anybody be asked. It returns
// job.ErrFenced if a no longer holds the job. Repeating it is harmless.
func (s *Store) AskApproval(ctx context.Context, a *job.Attempt, c job.Call, within time.Duration) error {
	ctx, cancel := written(ctx)
	defer cancel()
	args := append(fenceRow(a), c.Seq, a.Job.Tenant, textColumn(c.Namespace), textColumn(c.Name), optionalBytes(c.Arguments), within)
	tag, err := s.exec(ctx, "ask for approval", askSQL, args...)
	if err != nil || tag.RowsAffected() == 1 {
		return err
	}
	_, err = one(ctx, s, "ask for approval", pgx.RowTo[bool],
		`SELECT true FROM approvals WHERE job = $1 AND attempt = $2 AND seq = $3`, [16]byte(a.Job.ID), a.Number, c.Seq)
	if errors.Is(err, ErrNotFound) {
		return fmt.Errorf("ask for approval: %w", s.whyNoCall(ctx, a))
	}
	return err
}

// approvalHeld is true while the attempt of row p holds its job, so that it is
// there to hear a decision.
const approvalHeld = `EXISTS (SELECT FROM jobs j WHERE j.id = p.job AND j.attempt = p.attempt AND j.state = 'running')`

// approvalState is where row p stands now, whether or not that is written.
const approvalState = `
    CASE
        WHEN p.decision IS NOT NULL THEN p.decision
        WHEN NOT ` + approvalHeld + ` THEN 'gone'
        WHEN p.expires_at <= now() THEN 'expired'
        ELSE 'waiting' END`

// approvalColumns are what scanApproval reads, of approvals p.
const approvalColumns = `
    p.job, p.attempt, p.seq, p.tenant, p.namespace, p.name, p.arguments, p.asked_at, p.expires_at,` + approvalState + `,
    p.decided_at, p.decided_by, p.reason`

func scanApproval(row pgx.CollectableRow) (job.Approval, error) {
	var (
		a          job.Approval
		id         [16]byte
		arguments  []byte
		decided    *time.Time
		by, reason *string
	)
	err := row.Scan(&id, &a.Attempt, &a.Seq, &a.Tenant, &a.Namespace, &a.Name, &arguments, &a.Asked, &a.Expires, &a.State,
		&decided, &by, &reason)
	a.Job, a.Arguments = job.ID(id), jsontext.Value(arguments)
	a.Asked, a.Expires, a.Decided = a.Asked.UTC(), a.Expires.UTC(), deref(decided).UTC()
	a.By, a.Reason = deref(by), deref(reason)
	return a, err
}

// Decisions returns those of the calls that wait no longer, and writes down
// that the time of some is over.
func (s *Store) Decisions(ctx context.Context, calls []job.CallRef) ([]job.Approval, error) {
	jobs, attempts, seqs := make([][16]byte, len(calls)), make([]int, len(calls)), make([]int, len(calls))
	for i, c := range calls {
		jobs[i], attempts[i], seqs[i] = [16]byte(c.Job), c.Attempt, c.Seq
	}
	const mine = `(p.job, p.attempt, p.seq) IN (SELECT * FROM unnest($1::uuid[], $2::integer[], $3::integer[]))`
	if _, err := s.exec(ctx, "expire approvals", `
		UPDATE approvals p SET decision = 'expired', decided_at = now()
		WHERE p.decision IS NULL AND p.expires_at <= now() AND `+mine, jobs, attempts, seqs); err != nil {
		return nil, err
	}
	return collect(ctx, s, "read approvals", scanApproval, `
		SELECT `+approvalColumns+`
		FROM approvals p
		WHERE p.decision IS NOT NULL AND `+mine, jobs, attempts, seqs)
}

// ApprovalGone notes that nobody waits for a decision about the call any more.
// One that was made stays.
func (s *Store) ApprovalGone(ctx context.Context, c job.CallRef) error {
	ctx, cancel := written(ctx)
	defer cancel()
	_, err := s.exec(ctx, "give up an approval", `
		UPDATE approvals SET decision = 'gone', decided_at = now()
		WHERE job = $1 AND attempt = $2 AND seq = $3 AND decision IS NULL`, [16]byte(c.Job), c.Attempt, c.Seq)
	return err
}

// Decide records what a person decided, if the call still waits, and returns
// the request as it stands then. To decide again the same is no error.
// ErrNotFound if the tenant has no such request; ErrDecided if it was decided
// otherwise, expired, or its attempt is gone.
func (s *Store) Decide(ctx context.Context, tenant string, d job.Decision) (job.Approval, error) {
	ctx, cancel := written(ctx)
	defer cancel()
	if err := s.completeRef(ctx, tenant, &d); err != nil {
		return job.Approval{}, err
	}
	tag, err := s.exec(ctx, "decide", `
		UPDATE approvals p SET decision = $5, decided_at = now(), decided_by = $6, reason = $7
		WHERE p.tenant = $1 AND p.job = $2 AND p.attempt = $3 AND p.seq = $4
		    AND p.decision IS NULL AND p.expires_at > now() AND `+approvalHeld,
		tenant, [16]byte(d.Job), d.Attempt, d.Seq, string(d.State()), textColumn(d.By), optionalText(d.Reason))
	if err != nil {
		return job.Approval{}, err
	}
	now, err := one(ctx, s, "decide", scanApproval, `
		SELECT `+approvalColumns+`
		FROM approvals p
		WHERE p.tenant = $1 AND p.job = $2 AND p.attempt = $3 AND p.seq = $4`, tenant, [16]byte(d.Job), d.Attempt, d.Seq)
	if err != nil || tag.RowsAffected() == 1 || now.State == d.State() {
		return now, err
	}
	return now, fmt.Errorf("call %s: %w: %s", d.CallRef, ErrDecided, settled(now))
}

// settled says why a request waits no longer.
func settled(a job.Approval) string {
	switch a.State {
	case job.ApprovalExpired:
		return "nobody decided before " + a.Expires.Format(time.RFC3339)
	case job.ApprovalGone:
		return "the attempt has ended, and nobody waits for it"
	}
	return fmt.Sprintf("%s has %s it at %s", a.By, a.State, a.Decided.Format(time.RFC3339))
}

// completeRef finds the job of which only the last digits were given.
func (s *Store) completeRef(ctx context.Context, tenant string, d *job.Decision) error {
	if !d.Job.IsZero() {
		return nil
	}
	found, err := collect(ctx, s, "find a request", pgx.RowTo[[16]byte], `
		SELECT job
		FROM approvals
		WHERE tenant = $1 AND attempt = $2 AND seq = $3 AND right(job::text, $4) = $5
		ORDER BY asked_at DESC
		LIMIT 2`, tenant, d.Attempt, d.Seq, len(d.Tail), d.Tail)
	switch {
	case err != nil:
		return err
	case len(found) == 0:
		return fmt.Errorf("find a request: %w", ErrNotFound)
	case len(found) > 1:
		return fmt.Errorf("%q: %w: give a whole one", d.Tail, ErrAmbiguous)
	}
	d.Job, d.Tail = job.ID(found[0]), ""
	return nil
}

// Approvals lists a tenant's requests, newest first: those that wait, or all.
func (s *Store) Approvals(ctx context.Context, tenant string, all bool, limit int) ([]job.Approval, error) {
	where := "p.tenant = $1"
	if !all {
		where += " AND p.decision IS NULL AND p.expires_at > now() AND " + approvalHeld
	}
	return collect(ctx, s, "read approvals", scanApproval, `
		SELECT `+approvalColumns+`
		FROM approvals p
		WHERE `+where+`
		ORDER BY p.asked_at DESC
		LIMIT $2`, tenant, limit)
}

// Approval returns one request of a tenant; ErrNotFound if there is none.
func (s *Store) Approval(ctx context.Context, tenant string, d job.Decision) (job.Approval, error) {
	if err := s.completeRef(ctx, tenant, &d); err != nil {
		return job.Approval{}, err
	}
	return one(ctx, s, "read an approval", scanApproval, `
		SELECT `+approvalColumns+`
		FROM approvals p
		WHERE p.tenant = $1 AND p.job = $2 AND p.attempt = $3 AND p.seq = $4`, tenant, [16]byte(d.Job), d.Attempt, d.Seq)
}

// settleApprovals writes down what became of requests whose worker did not,
// and removes those whose job is no longer in the history.
func (s *Store) settleApprovals(ctx context.Context) (int, error) {
	settled, err := s.exec(ctx, "settle approvals", `
		UPDATE approvals p SET
		    decision = CASE WHEN p.expires_at <= now() AND `+approvalHeld+` THEN 'expired' ELSE 'gone' END, decided_at = now()
		WHERE p.decision IS NULL AND (NOT `+approvalHeld+` OR p.expires_at < now() - interval '1 minute')`)
	if err != nil {
		return 0, err
	}
	removed, err := s.exec(ctx, "forget approvals", `
		DELETE FROM approvals p
		WHERE p.decision IS NOT NULL AND p.decided_at < now() - interval '1 hour'
		    AND NOT EXISTS (SELECT FROM jobs j WHERE j.id = p.job)`)
	return int(settled.RowsAffected() + removed.RowsAffected()), err
}
