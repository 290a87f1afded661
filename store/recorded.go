package store

import (
	"context"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/jackc/pgx/v5"

	"airlock/job"
)

// callColumns are what scanCall reads, of tool_calls c.
const callColumns = `
    c.job, c.attempt, c.seq, c.namespace, c.name, c.arguments, c.state, c.answer, c.code, c.message, c.detail, c.retryable,
    c.started_at, c.ended_at, c.provider, c.schema_digest, c.start_link, c.start_hash, c.end_link, c.end_hash`

// outlineColumns are the same without what is large and not the guest's.
const outlineColumns = `
    c.job, c.attempt, c.seq, c.namespace, c.name, c.arguments, c.state, NULL::bytea, c.code, c.message, NULL::bytea, c.retryable,
    c.started_at, c.ended_at, c.provider, c.schema_digest, c.start_link, c.start_hash, c.end_link, c.end_hash`

func scanCall(row pgx.CollectableRow) (job.Call, error) {
	var (
		c                                  job.Call
		id                                 [16]byte
		arguments, answer, message, detail []byte
		code, provider, schema             *string
		started                            time.Time
		ended                              *time.Time
		startLink, endLink                 *int
	)
	err := row.Scan(
		&id, &c.Attempt, &c.Seq, &c.Namespace, &c.Name, &arguments, &c.State, &answer, &code, &message, &detail, &c.Retryable,
		&started, &ended, &provider, &schema, &startLink, &c.StartHash, &endLink, &c.EndHash)
	c.Job, c.Arguments, c.Answer = job.ID(id), jsontext.Value(arguments), jsontext.Value(answer)
	c.Code, c.Message, c.Detail = deref(code), string(message), string(detail)
	c.Started, c.Ended = started.UTC(), deref(ended).UTC()
	c.Provider, c.SchemaDigest = deref(provider), deref(schema)
	c.StartLink, c.EndLink = deref(startLink), deref(endLink)
	return c, err
}

// Calls returns the audit of all attempts of a job, in order. ErrNotFound if
// the tenant has no such job.
func (s *Store) Calls(ctx context.Context, tenant string, id job.ID) ([]job.Call, error) {
	calls, err := collect(ctx, s, "read calls", scanCall, callsSQL, tenant, [16]byte(id))
	if err != nil || len(calls) > 0 {
		return calls, err
	}
	_, err = one(ctx, s, "read calls", pgx.RowTo[bool], knownSQL, tenant, [16]byte(id))
	return nil, err
}

// Recorded gives the calls that q chooses to each, one at a time, by attempt and
// sequence. What each returns ends it and is returned. A job of another tenant
// has none.
func (s *Store) Recorded(ctx context.Context, q job.CallQuery, each func(job.Call) error) error {
	columns := callColumns
	if q.Outline {
		columns = outlineColumns
	}
	which, args := "c.attempt < $3", []any{q.Tenant, [16]byte(q.Job), q.Before}
	switch {
	case q.Last:
		which, args = "c.attempt = j.ended_by", args[:2]
	case q.Seq > 0:
		which, args = "c.attempt = $3 AND c.seq = $4", append(args[:2], q.Attempt, q.Seq)
	}
	rows, err := s.pool.Query(ctx, `
		SELECT `+columns+`
		FROM tool_calls c
		JOIN jobs j ON j.id = c.job
		WHERE j.tenant = $1 AND j.id = $2 AND c.job = $2 AND `+which+`
		ORDER BY c.attempt, c.seq`, args...)
	if err != nil {
		return translate("read recorded calls", err)
	}
	return s.eachCall("read recorded calls", rows, each)
}

// eachCall reads rows of callColumns.
func (s *Store) eachCall(act string, rows pgx.Rows, each func(job.Call) error) error {
	defer rows.Close()
	for rows.Next() {
		c, err := scanCall(rows)
		if err != nil {
			return fmt.Errorf("%s: %w", act, err)
		}
		if err := each(c); err != nil {
			return err
		}
	}
	err := rows.Err()
	if err != nil {
		s.noteLoss(err)
	}
	return translate(act, err)
}
