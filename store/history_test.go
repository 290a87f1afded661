package store_test

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"airlock/job"
	"airlock/store"
)

func jobIDs(recs []job.Record) []job.ID {
	ids := []job.ID{}
	for _, rec := range recs {
		ids = append(ids, rec.ID)
	}
	return ids
}

func TestHistory(t *testing.T) {
	t.Parallel()
	f := open(t)
	plain, batched, failed, foreign := newJob(t), newJob(t, inBatch("b")), newJob(t, inBatch("b")), newJob(t, inBatch("b"), func(j *job.Job) { j.Tenant = "other" })
	// Made an hour apart, so that since has something to tell.
	for i, j := range []*job.Job{plain, batched, failed, foreign} {
		moveID(j, time.Now().Add(time.Duration(i-4)*time.Hour))
		a := f.claim(j, 1, "w")
		status := job.StatusOK
		if j == failed {
			status = job.StatusTimeout
		}
		f.finish(a, resultOf(a, status))
	}
	for _, test := range []struct {
		name   string
		filter job.Filter
		want   []job.ID
	}{
		{"all", job.Filter{}, []job.ID{failed.ID, batched.ID, plain.ID}},
		{"batch", job.Filter{Batch: "b"}, []job.ID{failed.ID, batched.ID}},
		{"status", job.Filter{Status: job.StatusOK}, []job.ID{batched.ID, plain.ID}},
		{"both", job.Filter{Batch: "b", Status: job.StatusOK}, []job.ID{batched.ID}},
		{"since", job.Filter{Since: time.Now().Add(-150 * time.Minute)}, []job.ID{failed.ID}},
		{"limit", job.Filter{Limit: 1}, []job.ID{failed.ID}},
		{"after", job.Filter{Limit: 1, Before: failed.ID}, []job.ID{batched.ID}},
		{"none", job.Filter{Batch: "x"}, []job.ID{}},
	} {
		got, err := f.History(t.Context(), "acme", test.filter)
		if err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		want(t, test.name, jobIDs(got), test.want)
	}
	first, err := f.BatchResults(t.Context(), "acme", "b", job.ID{}, 1)
	if err != nil || len(first) != 1 {
		t.Fatalf("results of batch: got %d, %v, want 1", len(first), err)
	}
	rest, err := f.BatchResults(t.Context(), "acme", "b", first[0].Job, 10)
	if err != nil || len(rest) != 1 {
		t.Fatalf("rest of batch: got %d, %v, want 1", len(rest), err)
	}
	want(t, "results", []job.ID{first[0].Job, rest[0].Job}, []job.ID{batched.ID, failed.ID})
}

// moveID gives the job an id of the given time.
func moveID(j *job.Job, at time.Time) {
	ms := uint64(at.UnixMilli())
	for i := range 6 {
		j.ID[i] = byte(ms >> (40 - 8*i))
	}
}

func TestTenantsAreKeptApart(t *testing.T) {
	t.Parallel()
	f := open(t)
	a := f.claim(newJob(t, inBatch("b")), 1, "w")
	f.finish(a, infraError(a))
	id := a.Job.ID
	for name, err := range map[string]error{
		"job":     second(f.Job(t.Context(), "other", id)),
		"result":  second(f.Result(t.Context(), "other", id)),
		"calls":   second(f.Calls(t.Context(), "other", id)),
		"batch":   second(f.Batch(t.Context(), "other", "b")),
		"requeue": second(f.Requeue(t.Context(), "other", id)),
	} {
		if !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s for another tenant: got %v, want %v", name, err, store.ErrNotFound)
		}
	}
	results, err := f.BatchResults(t.Context(), "other", "b", job.ID{}, 10)
	if err != nil || len(results) != 0 {
		t.Errorf("results for another tenant: got %d, %v, want none", len(results), err)
	}
}

func second[T any](_ T, err error) error { return err }

func TestJobRecord(t *testing.T) {
	t.Parallel()
	f := open(t)
	j := newJob(t, inBatch("b"), withKey("k"), func(j *job.Job) {
		j.Labels, j.Priority = map[string]string{"a": "b"}, job.PriorityHigh
		j.Deadline = time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)
	})
	a := f.claim(j, 1, "w")
	f.retry(a, time.Hour)
	got, err := f.Job(t.Context(), "acme", j.ID)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "record", got, job.Record{
		ID: j.ID, Tenant: "acme", Batch: "b", Key: "k", Labels: map[string]string{"a": "b"}, Lane: "any",
		Priority: job.PriorityHigh, State: job.StateRetryWait, Generation: 1, Attempt: 1, Failures: 1, MaxAttempts: 3,
		Worker: "w", Deadline: j.Deadline,
		Attempts: []job.AttemptRecord{{
			Number: 1, Generation: 1, Worker: "w", Backend: "fake", Outcome: "failed", Status: job.StatusInfraError,
			Error: &job.Error{Type: "sandbox", Message: "it did not start"},
		}},
	}, cmpopts.IgnoreFields(job.Record{}, "Submitted", "NotBefore"), cmpopts.IgnoreFields(job.AttemptRecord{}, "Started", "Ended"))
}

func TestRequeue(t *testing.T) {
	t.Parallel()
	f := open(t)
	j := newJob(t, tries(1))
	a := f.claim(j, 1, "w")
	if _, err := f.Requeue(t.Context(), "acme", j.ID); !errors.Is(err, store.ErrNotDead) {
		t.Errorf("requeue of a running job: got %v, want %v", err, store.ErrNotDead)
	}
	f.retry(a, 0)
	dead, err := f.Dead(t.Context(), "acme", 10)
	if err != nil || len(dead) != 1 {
		t.Fatalf("dead: got %d, %v, want 1", len(dead), err)
	}
	want(t, "error", dead[0].Error, &job.Error{Type: "sandbox", Message: "it did not start"})
	r, err := f.Requeue(t.Context(), "acme", j.ID)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "generation", r.Generation, 2)
	want(t, "reason", r.Reason, "requeued")
	unannounced, err := f.Unannounced(t.Context(), 0, 10)
	if err != nil || len(unannounced) != 0 {
		t.Errorf("unannounced after a requeue: got %d, %v, want none", len(unannounced), err)
	}
	b := f.claim(j, 2, "w")
	want(t, "attempt", b.Number, 2)
	f.finish(b, resultOf(b, job.StatusOK))
	if _, err := f.Requeue(t.Context(), "acme", j.ID); !errors.Is(err, store.ErrNotDead) {
		t.Errorf("requeue of a finished job: got %v, want %v", err, store.ErrNotDead)
	}
}

func TestWorkerSeen(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := store.WorkerRecord{ID: "w1", Host: "h", Version: "v", Started: time.Now(), Slots: 2, Offers: []job.Offer{{Backend: "fake"}}}
	for _, w.Slots = range []int{2, 4} {
		if err := f.WorkerSeen(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	want(t, "worker", value[string](f, `SELECT slots || ' ' || (offers -> 0 ->> 'backend') FROM workers`), "4 fake")
}

// TestPlansUseTheirIndexes fills a month and asks the planner, without the
// help that the store's own connections give it, how it would run each query.
func TestPlansUseTheirIndexes(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.exec(`
		INSERT INTO jobs (id, tenant, batch, labels, spec, content_digest, lane, priority, max_attempts, queued_at, state, status,
		    generation, ended_at, ended_by, lease_until, not_before, deadline, publish_due)
		SELECT
		    (substr(airlock_id_floor(now())::text, 1, 14) || '7' || lpad(to_hex(n % 4096), 3, '0') || '-8000-' || lpad(to_hex(n), 12, '0'))::uuid,
		    't' || n % 50, 'b' || n % 500, '{}', '{}', sha256('x'), 'any', 'normal', 3, now(), state,
		    CASE state WHEN 'finished' THEN (ARRAY['ok', 'timeout', 'cancelled'])[1 + n % 3] WHEN 'dead' THEN 'infra_error' END,
		    1,
		    CASE WHEN state IN ('finished', 'dead') THEN now() END, CASE WHEN state IN ('finished', 'dead') THEN 0 END,
		    CASE WHEN state = 'running' THEN now() END, CASE WHEN state = 'retry_wait' THEN now() END,
		    CASE WHEN state = 'queued' THEN now() END, CASE WHEN state = 'queued' AND n % 3 = 0 THEN now() END
		FROM (
		    SELECT n, CASE WHEN n % 100 = 0 THEN 'running' WHEN n % 101 = 0 THEN 'retry_wait' WHEN n % 103 = 0 THEN 'queued'
		        WHEN n % 107 = 0 THEN 'dead' ELSE 'finished' END AS state
		    FROM generate_series(1, 20000) n
		) AS made`)
	f.exec(`ANALYZE`)
	parents := map[string]string{}
	rows, err := f.sql.Query(t.Context(), `
		SELECT c.relname, p.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_class p ON p.oid = i.inhparent WHERE c.relkind = 'i'`)
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		var child, parent string
		if err := rows.Scan(&child, &parent); err != nil {
			t.Fatal(err)
		}
		parents[child] = parent
	}
	for _, test := range []struct{ name, query, index string }{
		{"history", `SELECT id FROM jobs WHERE tenant = 't7' ORDER BY id DESC LIMIT 10`, "jobs_by_tenant"},
		{"history of a batch", `SELECT id FROM jobs WHERE tenant = 't7' AND batch = 'b7' ORDER BY id DESC LIMIT 10`, "jobs_by_batch"},
		{"history of a status", `SELECT id FROM jobs WHERE tenant = 't7' AND status = 'timeout' ORDER BY id DESC LIMIT 10`, "jobs_by_status"},
		{"dead", `SELECT id FROM jobs WHERE tenant = 't7' AND status = 'infra_error' ORDER BY id DESC LIMIT 10`, "jobs_by_status"},
		{"results of a batch", `SELECT spec FROM jobs WHERE tenant = 't7' AND batch = 'b7' AND id > airlock_id_floor(now() - interval '1 day') ORDER BY id LIMIT 10`, "jobs_by_batch"},
		{"count of a batch", `SELECT state, count(*) FROM jobs WHERE tenant = 't7' AND batch = 'b7' GROUP BY state`, "jobs_by_batch"},
		{"lost", `SELECT id FROM jobs WHERE state = 'running' AND lease_until < now() ORDER BY id LIMIT 100`, "jobs_running"},
		{"due", `SELECT id FROM jobs WHERE state = 'retry_wait' AND not_before <= now() ORDER BY not_before LIMIT 100`, "jobs_waiting"},
		{"unconfirmed", `SELECT id FROM jobs WHERE publish_due <= now() ORDER BY publish_due LIMIT 100`, "jobs_unpublished"},
		{"waiting by lane", `SELECT lane, count(*) FROM jobs WHERE state = 'queued' AND publish_due IS NULL AND id < airlock_id_floor(now()) GROUP BY lane`, "jobs_queued"},
		{"waiting of a lane", `SELECT id FROM jobs WHERE lane = 'any' AND state = 'queued' AND publish_due IS NULL AND id < airlock_id_floor(now()) ORDER BY id LIMIT 100`, "jobs_queued"},
		{"overdue", `SELECT id FROM jobs WHERE state IN ('queued', 'retry_wait') AND deadline <= now() ORDER BY deadline LIMIT 100`, "jobs_by_deadline"},
		{"one job", `SELECT spec FROM jobs WHERE tenant = 't7' AND id = airlock_id_floor(now())`, "jobs_by_tenant"},
	} {
		plan := f.plan(test.query)
		used := []string{}
		for _, found := range regexp.MustCompile(`(?:using|Bitmap Index Scan on) (\S+)`).FindAllStringSubmatch(plan, -1) {
			used = append(used, parents[found[1]])
		}
		month := "on jobs_" + time.Now().UTC().Format("2006_01")
		if !slices.Contains(used, test.index) || strings.Contains(plan, "Seq Scan "+month) {
			t.Errorf("%s: got indexes %v, want %s:\n%s", test.name, used, test.index, plan)
		}
	}
	without := value[int](f, `
		SELECT count(*) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_class t ON t.oid = i.indrelid
		WHERE t.relname IN ('jobs', 'attempts', 'tool_calls', 'job_keys', 'announcements', 'workers') AND NOT i.indisprimary
		    AND obj_description(c.oid, 'pg_class') IS NULL`)
	want(t, "indexes without a comment", without, 0)
}

func (f *fixture) plan(query string) string {
	f.t.Helper()
	rows, err := f.sql.Query(f.t.Context(), "EXPLAIN (COSTS OFF) "+query)
	if err != nil {
		f.t.Fatal(err)
	}
	var plan strings.Builder
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			f.t.Fatal(err)
		}
		plan.WriteString(line + "\n")
	}
	return plan.String()
}
