package store

import (
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"

	"airlock/job"
)

// shape is the columns of the rows that one statement takes, each as "name
// type". A statement takes all its rows at once, because starting a statement
// over partitioned tables costs several times what one more row does.
type shape []string

// source is the table expression of the rows: r with the shape's columns. It
// uses the statement's first parameters, one array a column.
func (s shape) source() string {
	arrays, names := make([]string, len(s)), make([]string, len(s))
	for i, column := range s {
		name, kind, _ := strings.Cut(column, " ")
		arrays[i], names[i] = fmt.Sprintf("$%d::%s[]", i+1, kind), name
	}
	return "unnest(" + strings.Join(arrays, ", ") + ") AS r (" + strings.Join(names, ", ") + ")"
}

// arrays turns rows into the parameters that source takes.
func (s shape) arrays(rows [][]any) []any {
	columns := make([]any, len(s))
	for c := range s {
		column := make(pgtype.FlatArray[any], len(rows))
		for r, row := range rows {
			column[r] = row[c]
		}
		columns[c] = column
	}
	return columns
}

// join makes one shape of several.
func join(shapes ...shape) shape {
	var all shape
	for _, s := range shapes {
		all = append(all, s...)
	}
	return all
}

// jobShape is a job as its submitter described it; jobRow fills it.
var jobShape = shape{
	"id uuid", "tenant text", "batch text", "key bytea", "key_digest bytea", "labels text", "spec bytea",
	"content_digest bytea", "lane text", "priority text", "max_attempts integer", "not_before timestamptz",
	"deadline timestamptz", "queued_at timestamptz", "generation integer",
}

// jobColumns are the columns of jobs that jobValues gives from r.
const (
	jobColumns = `id, tenant, batch, key, labels, spec, content_digest, lane, priority, max_attempts, not_before, deadline,
        queued_at, generation`
	jobValues = `id, tenant, batch, key, labels::jsonb, spec, content_digest, lane, priority, max_attempts, not_before, deadline,
        queued_at, generation`
)

// keys are the parts of a statement about keys: owners claims those of r, in a
// CTE that has a row for each key that is new or another job's, and free is
// whether nobody else's is in the way of row r.
type keys struct{ owners, free string }

// perKeys makes a statement for rows without keys and one for rows of which
// some have one: starting to write to a table costs as much as a row or two,
// also when nothing is written, and most jobs have no key.
func perKeys(sql func(keys) string) map[bool]string {
	return map[bool]string{
		false: sql(keys{free: "true"}),
		true:  sql(keys{owners: ", " + keyOwnerSQL, free: keyIsFree}),
	}
}

const (
	keyOwnerSQL = `owner AS (
    INSERT INTO job_keys AS k (tenant, key_digest, job, content_digest)
    SELECT tenant, key_digest, id, content_digest
    FROM r
    WHERE key_digest IS NOT NULL
    ORDER BY id
    ON CONFLICT (tenant, key_digest) DO UPDATE SET job = k.job
    WHERE k.job <> excluded.job
    RETURNING tenant, key_digest, job
)`
	keyIsFree = `NOT EXISTS (
        SELECT FROM owner o WHERE o.tenant = r.tenant AND o.key_digest = r.key_digest AND o.job <> r.id)`
)

// resultShape is a result; resultRow fills it.
var resultShape = shape{
	"status text", "value bytea", "value_json text", "lossy boolean",
	"error_type bytea", "error_message bytea", "error_traceback bytea",
	"stdout bytea", "stdout_bytes bigint", "stdout_truncated boolean",
	"stderr bytea", "stderr_bytes bigint", "stderr_truncated boolean",
	"exit_code bigint", "signal text", "tool_calls integer", "usage text", "facts bytea", "facts_json text",
	"audit_head text",
}

// setResult fills the columns of attempts from r.
const setResult = `status = r.status, value = r.value, value_json = r.value_json::jsonb, lossy = r.lossy,
    error_type = r.error_type, error_message = r.error_message, error_traceback = r.error_traceback,
    stdout = r.stdout, stdout_bytes = r.stdout_bytes, stdout_truncated = r.stdout_truncated,
    stderr = r.stderr, stderr_bytes = r.stderr_bytes, stderr_truncated = r.stderr_truncated,
    exit_code = r.exit_code, signal = r.signal, tool_calls = r.tool_calls, usage = r.usage::jsonb,
    facts = r.facts, facts_json = r.facts_json::jsonb, audit_head = r.audit_head`

// fenceShape names an attempt; fenceRow fills it.
var fenceShape = shape{"job uuid", "number integer", "worker text"}

func fenceRow(a *job.Attempt) []any {
	return []any{[16]byte(a.Job.ID), a.Number, textColumn(a.Worker)}
}

// rounds splits items so that no two of a round have a name in common: one
// statement may not change the same row twice. Items with a common name keep
// their order.
func rounds[T any](items []T, names func(T) []string) [][]T {
	var all [][]T
	used := map[string]int{} // the first round that is free for a name
	for _, item := range items {
		round := 0
		for _, name := range names(item) {
			round = max(round, used[name])
		}
		for _, name := range names(item) {
			used[name] = round + 1
		}
		if round == len(all) {
			all = append(all, nil)
		}
		all[round] = append(all[round], item)
	}
	return all
}
