package store

import (
	"fmt"
	"strings"

	"airlock/job"
)

// The queries about the history, all of them: each looks its rows up by an
// index, in the months that can have them and no others. TestHistoryPlans holds
// that of every constant here, with five million rows in make plans.
const (
	// recordColumns are what scanRecord reads, of jobs j and attempts a.
	recordColumns = `
    j.id, j.tenant, j.batch, j.key, j.labels, j.lane, j.priority, j.state, j.status, j.generation, j.attempt, j.failures,
    j.max_attempts, j.worker, j.cancel_requested, j.queued_at, j.not_before, j.deadline, j.lease_until, j.ended_at,
    a.backend, a.error_type, a.error_message`

	// resultColumns are what scanResult reads, of jobs j and attempts a.
	resultColumns = `
    j.id, j.key, j.tenant, j.batch, j.ended_at,
    a.number, a.worker, a.backend, a.status, a.value, a.lossy, a.error_type, a.error_message, a.error_traceback,
    a.stdout, a.stdout_bytes, a.stdout_truncated, a.stderr, a.stderr_bytes, a.stderr_truncated,
    a.exit_code, a.signal, a.tool_calls, a.usage, a.facts, a.audit_head`

	// recordsSQL is completed by historyQuery.
	recordsSQL = `
		SELECT ` + recordColumns + `
		FROM jobs j
		LEFT JOIN attempts a ON a.job = j.id AND a.number = j.ended_by
		WHERE `

	jobSQL = recordsSQL + `j.tenant = $1 AND j.id = $2`

	attemptsSQL = `
		SELECT job, number, generation, worker, backend, outcome, status, error_type, error_message, tool_calls, started_at, ended_at
		FROM attempts
		WHERE job = $1
		ORDER BY number`

	// triesSQL cuts the messages: there are up to twenty beside one result. It
	// joins, because months are not told apart by = ANY.
	triesSQL = `
		SELECT job, number, generation, worker, backend, outcome, status, error_type,
		    substring(error_message FROM 1 FOR 1000), tool_calls, started_at, ended_at
		FROM unnest($1::uuid[]) AS asked (id)
		JOIN attempts ON job = asked.id
		ORDER BY job, number`

	batchCountSQL = `
		SELECT state, coalesce(status, ''), count(*)
		FROM jobs
		WHERE tenant = $1 AND batch = $2
		GROUP BY state, status`

	resultSQL = `
		SELECT ` + resultColumns + `
		FROM jobs j
		JOIN attempts a ON a.job = j.id AND a.number = j.ended_by
		WHERE j.tenant = $1 AND j.id = $2`

	batchResultsSQL = `
		SELECT ` + resultColumns + `
		FROM jobs j
		JOIN attempts a ON a.job = j.id AND a.number = j.ended_by
		WHERE ` + ofTenant + ` AND j.batch = $2 AND j.id > $3
		ORDER BY j.tenant, j.id
		LIMIT $4`

	callsSQL = `
		SELECT ` + callColumns + `
		FROM tool_calls c
		JOIN jobs j ON j.id = c.job
		WHERE j.tenant = $1 AND j.id = $2 AND c.job = $2
		ORDER BY c.attempt, c.seq`

	knownSQL = `SELECT true FROM jobs WHERE tenant = $1 AND id = $2`

	artifactSQL = `
		SELECT x.content
		FROM artifacts x
		JOIN jobs j ON j.id = x.job AND j.ended_by = x.attempt
		WHERE j.tenant = $1 AND j.id = $2 AND x.path = $3`

	factsSQL = `
		SELECT a.facts
		FROM attempts a
		JOIN jobs j ON j.id = a.job AND j.ended_by = a.number
		WHERE a.job = $1 AND a.facts IS NOT NULL`
)

// ofTenant is "j.tenant = $1" in words that leave the tenant a part of the
// order. Without it the primary key has the order too, and is taken where the
// planner thinks that it meets enough of the tenant's jobs soon: a tenant that
// has few of them would wait until every month had been read.
const ofTenant = "j.tenant = ANY (ARRAY[$1])"

// historyQuery names only the columns that choose, so that each combination has
// its own plan and index.
func historyQuery(tenant string, f job.Filter) (string, []any) {
	where, args := []string{ofTenant}, []any{tenant}
	add := func(condition string, value any) {
		args = append(args, value)
		where = append(where, fmt.Sprintf(condition, len(args)))
	}
	if f.Batch != "" {
		add("j.batch = $%d", f.Batch)
	}
	if f.Status != "" {
		add("j.status = $%d", string(f.Status))
	}
	if !f.Since.IsZero() {
		add("j.id >= airlock_id_floor($%d)", f.Since)
	}
	if !f.Before.IsZero() {
		add("j.id < $%d", [16]byte(f.Before))
	}
	limit := f.Limit
	if limit <= 0 {
		limit = defaultHistory
	}
	args = append(args, min(limit, maxHistory))
	return recordsSQL + strings.Join(where, " AND ") + fmt.Sprintf(`
		ORDER BY j.tenant DESC, j.id DESC
		LIMIT $%d`, len(args)), args
}
