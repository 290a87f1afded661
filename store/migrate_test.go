package store_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"airlock/job"
	"airlock/migrations"
	"airlock/store"
	"airlock/store/storetest"
)

func TestMigrateTwiceAndAtOnce(t *testing.T) {
	t.Parallel()
	url := storetest.EmptyURL(t)
	if _, err := store.Open(t.Context(), store.Config{URL: url, Log: storetest.Log(t)}); !errors.Is(err, store.ErrOlderSchema) {
		t.Errorf("open before migrating: got %v, want %v", err, store.ErrOlderSchema)
	}
	errs := make(chan error)
	for range 4 {
		go func() { errs <- store.Migrate(t.Context(), url, storetest.Log(t)) }()
	}
	for range 4 {
		if err := <-errs; err != nil {
			t.Errorf("migrate at once: %v", err)
		}
	}
	if err := store.Migrate(t.Context(), url, storetest.Log(t)); err != nil {
		t.Errorf("migrate again: %v", err)
	}
	f := openOn(t, url)
	a := f.claim(newJob(t), 1, "w")
	f.finish(a, resultOf(a, job.StatusOK))
}

func TestNewerSchemaIsRefused(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.exec(`INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, true)`)
	for name, err := range map[string]error{
		"migrate": store.Migrate(t.Context(), f.url, storetest.Log(t)),
		"open":    second(store.Open(t.Context(), store.Config{URL: f.url, Log: storetest.Log(t)})),
	} {
		if !errors.Is(err, store.ErrNewerSchema) || !strings.Contains(err.Error(), "9999") {
			t.Errorf("%s: got %v, want %v with the version", name, err, store.ErrNewerSchema)
		}
	}
}

// TestClosedSets keeps the rules and the Go constants the same.
func TestClosedSets(t *testing.T) {
	t.Parallel()
	var sql strings.Builder
	names, err := fs.Glob(migrations.FS, "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		content, err := fs.ReadFile(migrations.FS, name)
		if err != nil {
			t.Fatal(err)
		}
		sql.Write(content)
	}
	quoted := func(rule string) []string {
		found := regexp.MustCompile(`WHEN NOT \w+ IN \(([^)]*)\) THEN '` + rule + `'`).FindStringSubmatch(sql.String())
		if found == nil {
			found = regexp.MustCompile(`CONSTRAINT ` + rule + ` CHECK \(\w+ IN \(([^)]*)\)`).FindStringSubmatch(sql.String())
		}
		if found == nil {
			t.Fatalf("no rule %s", rule)
		}
		var words []string
		for _, word := range regexp.MustCompile(`'(\w+)'`).FindAllStringSubmatch(found[1], -1) {
			words = append(words, word[1])
		}
		return words
	}
	var statuses []string
	for _, s := range job.Statuses() {
		statuses = append(statuses, string(s))
	}
	want(t, "jobs_status", quoted("jobs_status"), statuses)
	want(t, "attempts_status", quoted("attempts_status"), statuses)
	want(t, "jobs_state", quoted("jobs_state"), []string{
		string(job.StateQueued), string(job.StateRunning), string(job.StateRetryWait), string(job.StateFinished), string(job.StateDead)})
	want(t, "tool_calls_state", quoted("tool_calls_state"), []string{
		string(job.CallStarted), string(job.CallOK), string(job.CallFailed), string(job.CallRefused),
		string(job.CallCancelled), string(job.CallLate), string(job.CallReplayed)})
	want(t, "jobs_priority", quoted("jobs_priority"), []string{"high", "normal", "low"})
}

// asRole connects with the rights of one of the schema's roles.
func asRole(t *testing.T, raw, role string) string {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	query.Set("options", "-c role="+role)
	u.RawQuery = query.Encode()
	return strings.ReplaceAll(u.String(), "+", "%20")
}

func TestWorkerRoleSuffices(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t)
	f := &fixture{Store: storetest.OpenURL(t, asRole(t, url, "airlock_worker")), t: t, url: url}
	j := newJob(t, withKey("k"), inBatch("b"), tries(1))
	f.record(t, j)
	a := f.claim(j, 1, "w")
	if _, err := f.Heartbeat(t.Context(), "w", []job.Holding{{Job: j.ID, Attempt: 1}}); err != nil {
		t.Error(err)
	}
	c := callOf(a, 1)
	f.started(a, c)
	f.ended(a, endOf(c, job.CallCancelled))
	f.ended(a, endOf(c, job.CallLate))
	f.ended(a, endOf(callOf(a, 2), job.CallRefused))
	waits := f.asks(a, 3, time.Hour)
	decided := second(f.Decide(t.Context(), "acme", yes(waits)))
	f.retry(a, 0)
	ctx := t.Context()
	for name, err := range map[string]error{
		"decide":      decided,
		"decisions":   second(f.Decisions(ctx, []job.CallRef{waits})),
		"gone":        f.ApprovalGone(ctx, waits),
		"approvals":   second(f.Approvals(ctx, "acme", true, 10)),
		"tool stats":  second(f.ToolStats(ctx, "acme", "", time.Now().Add(-time.Hour))),
		"requeue":     second(f.Requeue(ctx, "acme", j.ID)),
		"take due":    second(f.TakeDue(ctx, 10)),
		"republished": f.Republished(ctx, j.ID, 2),
		"waiting":     second(f.Waiting(ctx, 0)),
		"rebuild":     second(f.RebuildLane(ctx, "any", 0, 10)),
		"bury":        second(f.BuryUnplaceable(ctx, "any", 0, 10)),
		"sweep":       second(f.Sweep(ctx)),
		"attempts":    second(f.Attempts(ctx, j.ID)),
		"expire":      second(f.ExpireOverdue(ctx, 10)),
		"cancel":      second(f.Cancel(ctx, "acme", j.ID)),
		"batch":       second(f.CancelBatch(ctx, "acme", "b")),
		"announced":   f.Announced(ctx, j.ID, 0),
		"partitions":  f.EnsurePartitions(ctx, time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC)),
		"worker":      f.WorkerSeen(ctx, store.WorkerRecord{ID: "w", Started: time.Now()}),
		"policy":      f.PolicyTaken(ctx, "w", time.Now(), strings.Repeat("ab", 32), "{}"),
		"history":     second(f.History(ctx, "acme", job.Filter{})),
		"duplicate":   second(f.Claim(ctx, job.ClaimRequest{Job: newJob(t, withKey("k")), Generation: 1, Worker: "w"})),
	} {
		if err != nil {
			t.Errorf("%s as airlock_worker: %v", name, err)
		}
	}
}

func TestAuditCannotBeRewritten(t *testing.T) {
	t.Parallel()
	f := open(t)
	a := f.claim(newJob(t), 1, "w")
	ok, open := callOf(a, 1), callOf(a, 2)
	f.started(a, ok)
	f.ended(a, endOf(ok, job.CallOK))
	f.started(a, open)
	running := f.claim(newJob(t), 1, "w")
	result := resultOf(a, job.StatusOK)
	result.Artifacts = []job.Artifact{kept("a", "x")}
	f.finish(a, result)
	wantError(t, "policy", f.PolicyTaken(t.Context(), "w", time.Now(), strings.Repeat("ab", 32), "{}"), nil)
	_ = running
	asked := f.asks(running, 1, time.Hour)
	if _, err := f.Decide(t.Context(), "acme", job.Decision{CallRef: asked, By: "ann", Deny: true}); err != nil {
		t.Fatal(err)
	}
	for _, role := range []string{"airlock_worker", "owner"} {
		url := f.url
		if role != "owner" {
			url = asRole(t, f.url, role)
		}
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		for _, sql := range []string{
			`DELETE FROM tool_calls`,
			`DELETE FROM attempts`,
			`DELETE FROM artifacts`,
			`DELETE FROM approvals`,
			`UPDATE approvals SET decision = 'approved'`,
			`UPDATE approvals SET arguments = '{}'`,
			`UPDATE artifacts SET content = 'x'`,
			`DELETE FROM policy_changes`,
			`UPDATE policy_changes SET at = at + interval '1 hour'`,
			`DELETE FROM policies WHERE digest NOT IN (SELECT digest FROM policy_changes) OR true`,
			`UPDATE policies SET policy = '[]'`,
			`UPDATE tool_calls SET state = 'failed' WHERE state = 'ok'`,
			`UPDATE tool_calls SET answer = 'x' WHERE state = 'ok'`,
			`UPDATE tool_calls SET arguments = 'x', state = 'ok', ended_at = now() WHERE state = 'started'`,
			`UPDATE tool_calls SET start_hash = 'x' WHERE state = 'started'`,
			`UPDATE tool_calls SET seq = 7 WHERE state = 'started'`,
			`UPDATE tool_calls SET started_at = now() - interval '1 day' WHERE state = 'started'`,
			`UPDATE attempts SET stdout = 'x' WHERE outcome = 'finished'`,
			`UPDATE attempts SET outcome = 'running', ended_at = NULL, status = NULL WHERE outcome = 'finished'`,
			`UPDATE attempts SET worker = 'x' WHERE outcome = 'running'`,
		} {
			if _, err := conn.Exec(t.Context(), sql); !isRefused(err) {
				t.Errorf("%s: %s: got %v, want a refusal", role, sql, err)
			}
		}
		if role == "owner" {
			continue
		}
		for _, sql := range []string{
			`TRUNCATE tool_calls`, `DELETE FROM jobs`, `UPDATE jobs SET tenant = 'x'`, `UPDATE jobs SET spec = 'xx'`,
			`DROP TABLE tool_calls`, `ALTER TABLE tool_calls DISABLE TRIGGER ALL`, `CREATE TABLE mine (a int)`,
		} {
			if _, err := conn.Exec(t.Context(), sql); !isRefused(err) {
				t.Errorf("%s: %s: got %v, want a refusal", role, sql, err)
			}
		}
	}
	want(t, "calls", value[int](f, `SELECT count(*) FROM tool_calls`), 2)
}

func TestAnalystReadsOnly(t *testing.T) {
	t.Parallel()
	f := open(t)
	a := f.claim(newJob(t), 1, "w")
	f.finish(a, resultOf(a, job.StatusOK))
	conn, err := pgx.Connect(t.Context(), asRole(t, f.url, "airlock_analyst"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	for _, view := range []string{"job_results", "job_attempts", "tool_call_history", "job_artifacts"} {
		if _, err := conn.Exec(t.Context(), "SELECT count(v::text) FROM "+view+" v"); err != nil {
			t.Errorf("read %s: %v", view, err)
		}
	}
	for _, sql := range []string{
		`UPDATE jobs SET state = 'queued'`, `DELETE FROM tool_calls`, `INSERT INTO workers (id, host, version, slots, started_at, seen_at) VALUES ('x', '', '', 1, now(), now())`,
		`SELECT airlock_add_month(now())`, `DELETE FROM job_results`, `SELECT key_digest FROM job_keys`,
	} {
		if _, err := conn.Exec(t.Context(), sql); !isRefused(err) {
			t.Errorf("%s: got %v, want a refusal", sql, err)
		}
	}
}

// isRefused reports whether the server refused for want of rights, or because
// a view or trigger is read only.
func isRefused(err error) bool {
	server, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (server.Code == "42501" || server.Code == "55000")
}

// TestMigrateWithoutRoleRights migrates as somebody who may not make roles.
func TestMigrateWithoutRoleRights(t *testing.T) {
	t.Parallel()
	url := storetest.EmptyURL(t)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	owner := fmt.Sprintf("airlock_test_owner_%d", time.Now().UnixNano())
	for _, sql := range []string{
		"CREATE ROLE " + owner,
		"DO $$ BEGIN EXECUTE format('GRANT CREATE ON DATABASE %I TO " + owner + "', current_database()); END $$",
		"GRANT ALL ON SCHEMA public TO " + owner,
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		conn, err := pgx.Connect(context.Background(), url)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close(context.Background())
		if _, err := conn.Exec(context.Background(), "DROP OWNED BY "+owner+" CASCADE; DROP ROLE "+owner); err != nil {
			t.Error(err)
		}
	})
	if err := store.Migrate(t.Context(), asRole(t, url, owner), storetest.Log(t)); err != nil {
		t.Fatalf("migrate without the right to make roles: %v", err)
	}
	f := &fixture{Store: storetest.OpenURL(t, asRole(t, url, owner)), t: t, url: url}
	a := f.claim(newJob(t), 1, "w")
	f.finish(a, resultOf(a, job.StatusOK))
}
