package store_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"airlock/job"
)

// TestRules: each rule of jobs and attempts refuses what breaks it, by its name,
// whoever writes.
func TestRules(t *testing.T) {
	t.Parallel()
	f := open(t)
	running, ended, retried := newJob(t, inBatch("b"), withKey("k")), newJob(t), newJob(t)
	f.claim(running, 1, "w")
	a := f.claim(ended, 1, "w")
	f.finish(a, resultOf(a, job.StatusOK))
	f.retry(f.claim(retried, 1, "w"), 0)
	f.exec(`ALTER TABLE attempts DISABLE TRIGGER USER`) // which keep what has ended from any change
	long := "repeat('x', 1000)"
	for _, c := range []struct {
		rule, set string
		of        *job.Job
	}{
		{"jobs_tenant", "tenant = 'no tenant'", running},
		{"jobs_batch", "batch = '-b'", running},
		{"jobs_key", "key = ''", running},
		{"jobs_spec", "spec = '{'", running},
		{"jobs_digest", "content_digest = 'short'", running},
		{"jobs_lane", "lane = " + long, running},
		{"jobs_priority", "priority = 'highest'", running},
		{"jobs_state", "state = 'lost', lease_until = NULL", running},
		{"jobs_status", "status = 'fine'", ended},
		{"jobs_counts", "generation = 0", running},
		{"jobs_counts", "max_attempts = 101", running},
		{"jobs_worker", "worker = " + long, running},
		{"jobs_running", "lease_until = NULL", running},
		{"jobs_running", "lease_until = now()", ended},
		{"jobs_retry_wait", "not_before = NULL", retried},
		{"jobs_ended", "status = 'ok'", running},
		{"jobs_ended", "ended_at = NULL", ended},
		{"jobs_ended", "ended_by = NULL", ended},
		{"jobs_dead", "status = 'infra_error'", ended},
		{"jobs_dead", "state = 'dead'", ended},
		{"attempts_number", "number = -1", ended},
		{"attempts_outcome", "outcome = 'won'", ended},
		{"attempts_ended", "ended_at = NULL", ended},
		{"attempts_result", "status = NULL", ended},
		{"attempts_status", "status = 'fine'", ended},
		{"attempts_names", "backend = " + long, ended},
		{"attempts_sizes", "value = repeat('x', 8388609)::bytea", ended},
		{"attempts_sizes", "error_type = '', error_message = '', error_traceback = repeat('x', 16777217)::bytea", ended},
		{"attempts_counts", "tool_calls = -1", ended},
	} {
		table, _, _ := strings.Cut(c.rule, "_")
		id := map[string]string{"jobs": "id", "attempts": "job"}[table]
		_, err := f.sql.Exec(t.Context(), `UPDATE `+table+` SET `+c.set+` WHERE `+id+` = $1`, [16]byte(c.of.ID))
		refusal, ok := errors.AsType[*pgconn.PgError](err)
		if !ok || refusal.Code != "23514" || refusal.ConstraintName != c.rule {
			t.Errorf("%s: got %v, want it refused by rule %s", c.set, err, c.rule)
		}
	}
}
