package store

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"airlock/job"
)

// callItem is a call's start or end on its way through a committer.
type callItem struct {
	attempt *job.Attempt
	call    job.Call
	plain   bool // no jsonb copies
	done    bool
}

func (i *callItem) size() int { return len(i.call.Arguments) + len(i.call.Answer) + 256 }

// startShape and endShape are what is known at a call's start and at its end;
// the rows of both begin with the fence.
var (
	callShape  = join(fenceShape, shape{"seq integer"})
	startShape = join(callShape, shape{
		"namespace text", "name text", "arguments bytea", "arguments_json text", "started_at timestamptz",
		"schema_digest text", "start_link integer", "start_hash bytea",
	})
	endShape = join(callShape, shape{
		"state text", "answer bytea", "answer_json text", "code text", "message bytea", "detail bytea",
		"ended_at timestamptz", "provider text", "end_schema text", "end_link integer", "end_hash bytea",
		"retryable boolean",
	})
	refuseShape = join(endShape, startShape[len(callShape):])
)

// holdsJob is true while the attempt of row r holds its job.
const holdsJob = `EXISTS (
        SELECT FROM jobs j WHERE j.id = r.job AND j.attempt = r.number AND j.state = 'running' AND j.worker = r.worker)`

var startSQL = `
INSERT INTO tool_calls (
    job, attempt, seq, namespace, name, arguments, arguments_json, state, started_at, schema_digest, start_link, start_hash)
SELECT
    job, number, seq, namespace, name, arguments, arguments_json::jsonb, 'started', coalesce(started_at, now()),
    schema_digest, start_link, start_hash
FROM ` + startShape.source() + `
WHERE ` + holdsJob + `
ON CONFLICT (job, attempt, seq) DO NOTHING
RETURNING job, attempt, seq`

// CallStarted records that a call is about to leave the worker. When it
// returns nil the row is committed, and only then may the call be made. It
// returns job.ErrFenced if a no longer holds the job. Repeating it is harmless.
func (s *Store) CallStarted(ctx context.Context, a *job.Attempt, c job.Call) error {
	item := &callItem{attempt: a, call: c}
	err := s.starts.do(ctx, item, 0)
	if isBadData(err) {
		item.plain = true
		err = s.starts.do(ctx, item, 0)
	}
	if err != nil || item.done {
		return err
	}
	return s.fencedUnless(ctx, "record call start", a, c.Seq, `
		SELECT start_hash IS NOT DISTINCT FROM $4::bytea
		FROM tool_calls
		WHERE job = $1 AND attempt = $2 AND seq = $3`, optionalBytes(c.StartHash))
}

func (s *Store) commitStarts(ctx context.Context, items []*callItem) error {
	batch := &pgx.Batch{}
	queueCalls(batch, items, startSQL, startShape, (*callItem).startRow)
	return s.sendBatch(ctx, batch)
}

// queueCalls adds the statement for the items, and notes which it took.
func queueCalls(batch *pgx.Batch, items []*callItem, sql string, columns shape, row func(*callItem) []any) {
	for _, round := range rounds(items, func(i *callItem) []string { return []string{i.name()} }) {
		rows, byName := make([][]any, len(round)), map[string]*callItem{}
		for i, item := range round {
			item.done = false
			rows[i], byName[item.name()] = append(item.callRow(), row(item)...), item
		}
		batch.Queue(sql, columns.arrays(rows)...).Query(func(rows pgx.Rows) error { return noteCalls(rows, byName) })
	}
}

func noteCalls(rows pgx.Rows, byName map[string]*callItem) error {
	for rows.Next() {
		var id [16]byte
		var attempt, seq int
		if err := rows.Scan(&id, &attempt, &seq); err != nil {
			return err
		}
		byName[callName(job.ID(id), attempt, seq)].done = true
	}
	return rows.Err()
}

func callName(id job.ID, attempt, seq int) string {
	return fmt.Sprint(string(id[:]), attempt, " ", seq)
}

func (i *callItem) name() string { return callName(i.attempt.Job.ID, i.attempt.Number, i.call.Seq) }

func (i *callItem) callRow() []any { return append(fenceRow(i.attempt), i.call.Seq) }

func (i *callItem) startRow() []any {
	c := &i.call
	started := c.Started
	if started.IsZero() {
		started = c.Ended
	}
	return []any{
		textColumn(c.Namespace), textColumn(c.Name), optionalBytes(c.Arguments), jsonbUnless(i.plain, c.Arguments),
		optionalTime(started), optionalText(c.SchemaDigest), optionalLink(c.StartLink), optionalBytes(c.StartHash),
	}
}

func (i *callItem) endRow() []any {
	c := &i.call
	return []any{
		string(c.State), optionalBytes(c.Answer), jsonbUnless(i.plain, c.Answer),
		optionalText(c.Code), optionalBytes(c.Message), optionalBytes(c.Detail), optionalTime(c.Ended),
		optionalText(c.Provider), optionalText(c.SchemaDigest), optionalLink(c.EndLink), optionalBytes(c.EndHash),
		c.Retryable,
	}
}

// endSQL ends calls whose start is recorded: once, and once more from
// cancelled to late. The end of a call that was given up may come after its
// attempt was, but not after the attempt has ended the job, since the chain of
// its calls is then closed; nor behind a link that the fence refused, which would
// be a gap in it.
var endSQL = `
UPDATE tool_calls c SET
    state = r.state, answer = r.answer, answer_json = r.answer_json::jsonb, code = r.code, message = r.message,
    detail = r.detail, ended_at = coalesce(r.ended_at, now()), provider = r.provider,
    schema_digest = coalesce(r.end_schema, c.schema_digest), end_link = r.end_link, end_hash = r.end_hash,
    retryable = r.retryable
FROM ` + endShape.source() + `
WHERE c.job = r.job AND c.attempt = r.number AND c.seq = r.seq
    AND (c.state = 'started' OR c.state = 'cancelled' AND r.state = 'late')
    AND (` + holdsJob + `
        OR r.state IN ('cancelled', 'late') AND NOT EXISTS (SELECT FROM jobs j WHERE j.id = r.job AND j.ended_by = r.number)
            AND (r.end_link IS NULL OR r.end_link = 1 OR EXISTS (
                SELECT
                FROM tool_calls p
                WHERE p.job = r.job AND p.attempt = r.number AND (p.start_link = r.end_link - 1 OR p.end_link = r.end_link - 1))))
RETURNING c.job, c.attempt, c.seq`

// refuseSQL records the whole of calls that never left the worker.
var refuseSQL = `
INSERT INTO tool_calls AS c (
    job, attempt, seq, state, answer, answer_json, code, message, detail, ended_at, provider, end_link, end_hash, retryable,
    namespace, name, arguments, arguments_json, started_at, schema_digest, start_link, start_hash)
SELECT
    job, number, seq, state, answer, answer_json::jsonb, code, message, detail, coalesce(ended_at, now()), provider,
    end_link, end_hash, retryable, namespace, name, arguments, arguments_json::jsonb, coalesce(started_at, now()), schema_digest,
    start_link, start_hash
FROM ` + refuseShape.source() + `
WHERE ` + holdsJob + `
ON CONFLICT (job, attempt, seq) DO UPDATE SET
    state = excluded.state, answer = excluded.answer, answer_json = excluded.answer_json, code = excluded.code,
    message = excluded.message, detail = excluded.detail, ended_at = excluded.ended_at,
    end_link = excluded.end_link, end_hash = excluded.end_hash, retryable = excluded.retryable
WHERE c.state = 'started'
RETURNING c.job, c.attempt, c.seq`

// CallEnded records how a call ended; it returns when the record is committed,
// which for an answer may be before it is on the disk. Refused and replayed calls, which never
// leave the worker, need no start; all others do. A call ends once, except
// that a cancelled one may become late. It returns job.ErrFenced if a no
// longer holds the job, but cancelled and late ends are taken until a has
// ended the job. Repeating it is harmless.
func (s *Store) CallEnded(ctx context.Context, a *job.Attempt, c job.Call) error {
	item := &callItem{attempt: a, call: c}
	err := s.ends.do(ctx, item, 0)
	if isBadData(err) {
		item.plain = true
		err = s.ends.do(ctx, item, 0)
	}
	if err != nil || item.done {
		return err
	}
	return s.fencedUnless(ctx, "record call end", a, c.Seq, `
		SELECT state = $4 AND end_hash IS NOT DISTINCT FROM $5::bytea OR state = 'late' AND $4 = 'cancelled'
		FROM tool_calls
		WHERE job = $1 AND attempt = $2 AND seq = $3`, string(c.State), optionalBytes(c.EndHash))
}

func (s *Store) commitEnds(ctx context.Context, items []*callItem) error {
	var left, stayed []*callItem
	for _, item := range items {
		if item.call.State == job.CallRefused || item.call.State == job.CallReplayed {
			stayed = append(stayed, item)
		} else {
			left = append(left, item)
		}
	}
	batch := &pgx.Batch{}
	if !slices.ContainsFunc(items, (*callItem).waits) {
		batch.Queue(dontWaitSQL)
	}
	queueCalls(batch, left, endSQL, endShape, (*callItem).endRow)
	queueCalls(batch, stayed, refuseSQL, refuseShape, func(i *callItem) []any { return append(i.endRow(), i.startRow()...) })
	return s.sendBatch(ctx, batch)
}

// waits reports whether the record of the end waits for the disk. That of an
// answer does not: the guest is given it the sooner, and should a crash of the
// server take it back, Finish finds the call still open. The others have nobody
// who waits for them, and are not missed if they are gone.
func (i *callItem) waits() bool { return i.call.State != job.CallOK && i.call.State != job.CallFailed }

func jsonbUnless(plain bool, doc []byte) any {
	if plain {
		return nil
	}
	return jsonbColumn(doc)
}

func optionalLink(link int) any {
	if link == 0 {
		return nil
	}
	return link
}

// fencedUnless tells a repeat from a fence: the query says whether the row of
// the call holds what was to be written. A row that holds something else is a
// fault of the caller's numbering.
func (s *Store) fencedUnless(ctx context.Context, act string, a *job.Attempt, seq int, query string, args ...any) error {
	args = append([]any{[16]byte(a.Job.ID), a.Number, seq}, args...)
	same, err := one(ctx, s, act, pgx.RowTo[bool], query, args...)
	switch {
	case errors.Is(err, ErrNotFound):
		return fmt.Errorf("%s: %w", act, s.whyNoCall(ctx, a))
	case err != nil:
		return err
	case !same:
		return fmt.Errorf("%s: call %d: %w", act, seq, s.whyNoCall(ctx, a))
	}
	return nil
}

// errCallOrder means that a call's rows came in an order that cannot be: an
// end without its start, or two calls with one number.
var errCallOrder = errors.New("the call's start is not recorded, or its number is another call's")

func (s *Store) whyNoCall(ctx context.Context, a *job.Attempt) error {
	err := s.checkFence(ctx, a)
	if err == nil {
		return errCallOrder
	}
	if errors.Is(err, ErrNotFound) {
		return job.ErrFenced
	}
	return err
}

// checkFence returns nil if a holds its job, and ErrNotFound if not.
func (s *Store) checkFence(ctx context.Context, a *job.Attempt) error {
	_, err := one(ctx, s, "check fence", pgx.RowTo[bool],
		`SELECT true FROM jobs WHERE id = $1 AND attempt = $2 AND state = 'running' AND worker = $3`,
		[16]byte(a.Job.ID), a.Number, textColumn(a.Worker))
	return err
}
