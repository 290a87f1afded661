package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"airlock/job"
)

// Audited lists the attempts of the jobs that scope chooses, in the order of
// their ids and numbers: those of at most limit jobs after the given one. The
// last of these jobs is where the next listing starts; a short or empty list is
// no sign of the end, only the zero ID is. ErrNotFound if the tenant has no such
// job or batch.
func (s *Store) Audited(ctx context.Context, tenant string, scope job.AuditScope, limit int) (attempts []job.Sealed, next job.ID, err error) {
	which, args := "j.id >= airlock_id_floor($4)", []any{tenant, [16]byte(scope.After), limit, scope.Since}
	switch {
	case !scope.ID.IsZero():
		which, args[3] = "j.id = $4", [16]byte(scope.ID)
	case scope.Batch != "":
		which, args[3] = "j.batch = $4", scope.Batch
	}
	ids, err := collect(ctx, s, "list audited jobs", pgx.RowTo[[16]byte], `
		SELECT j.id
		FROM jobs j
		WHERE j.tenant = $1 AND j.id > $2 AND `+which+`
		ORDER BY j.id
		LIMIT $3`, args...)
	if err == nil && len(ids) == 0 && scope.After.IsZero() && scope.Since.IsZero() {
		err = fmt.Errorf("list audited jobs: %w", ErrNotFound)
	}
	if err != nil || len(ids) == 0 {
		return nil, job.ID{}, err
	}
	if len(ids) == limit {
		next = job.ID(ids[len(ids)-1])
	}
	attempts, err = collect(ctx, s, "list audited attempts", scanSealed, `
		SELECT a.job, a.number, a.outcome, coalesce(a.status, ''), coalesce(a.audit_head, ''), a.tool_calls
		FROM attempts a
		WHERE a.job = ANY($1::uuid[]) AND a.number > 0
		ORDER BY a.job, a.number`, ids)
	return attempts, next, err
}

func scanSealed(row pgx.CollectableRow) (job.Sealed, error) {
	var a job.Sealed
	var id [16]byte
	err := row.Scan(&id, &a.Attempt, &a.Outcome, &a.Status, &a.Head, &a.ToolCalls)
	a.Job = job.ID(id)
	return a, err
}

// chainTimeout bounds how long one attempt's rows are read.
const chainTimeout = 25 * time.Second

// ReadChain reads the calls of one attempt twice, by sequence and one at a time:
// their links first, without anything else, and then whole. Both see the same
// moment. What a reader returns ends it and is returned.
func (s *Store) ReadChain(ctx context.Context, id job.ID, attempt int, links, whole func(job.Call) error) error {
	ctx, cancel := context.WithTimeout(ctx, chainTimeout)
	defer cancel()
	tx, err := s.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		s.noteLoss(err)
		return translate("read audit", err)
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	for _, pass := range []struct {
		columns string
		each    func(job.Call) error
	}{{linkColumns, links}, {callColumns, whole}} {
		rows, err := tx.Query(ctx, `
			SELECT `+pass.columns+`
			FROM tool_calls c
			WHERE c.job = $1 AND c.attempt = $2
			ORDER BY c.seq`, [16]byte(id), attempt)
		if err != nil {
			s.noteLoss(err)
			return translate("read audit", err)
		}
		if err := s.eachCall(fmt.Sprintf("read audit of attempt %d", attempt), rows, pass.each); err != nil {
			return err
		}
	}
	return nil
}

// linkColumns are callColumns with the links alone.
const linkColumns = `
    c.job, c.attempt, c.seq, '', '', NULL::bytea, c.state, NULL::bytea, c.code, NULL::bytea, NULL::bytea, c.retryable,
    c.started_at, c.ended_at, NULL::text, NULL::text, c.start_link, c.start_hash, c.end_link, c.end_hash`
