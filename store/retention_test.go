package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jackc/pgx/v5"

	"airlock/job"
	"airlock/store/storetest"
)

// monthsAgo is in the middle of a month that is so many months past.
func monthsAgo(n int) time.Time {
	now := time.Now().UTC()
	return time.Date(now.Year(), now.Month()-time.Month(n), 15, 12, 0, 0, 0, time.UTC)
}

// jobAt makes a job with an id of that time.
func jobAt(t testing.TB, at time.Time, change ...func(*job.Job)) *job.Job {
	t.Helper()
	j := newJob(t, change...)
	moveID(j, at)
	return j
}

// past makes a finished job with an id and an end of the given time, with a
// key, a call and an artifact.
func (f *fixture) past(at time.Time, change ...func(*job.Job)) *job.Job {
	f.t.Helper()
	j := jobAt(f.t, at, append([]func(*job.Job){withKey(job.NewID().String())}, change...)...)
	a := f.claim(j, 1, "w")
	c := callOf(a, 1)
	f.started(a, c)
	f.ended(a, endOf(c, job.CallOK))
	r := resultOf(a, job.StatusOK)
	r.Artifacts = []job.Artifact{kept("a", "x")}
	f.finish(a, r)
	if err := f.Announced(f.t.Context(), j.ID, 0); err != nil {
		f.t.Fatal(err)
	}
	f.endedAt(j.ID, at)
	return j
}

func (f *fixture) endedAt(id job.ID, at time.Time) {
	f.t.Helper()
	f.exec(`UPDATE jobs SET ended_at = $2 WHERE id = $1`, [16]byte(id), at)
}

// addMonth makes a month as the worker of that time would have.
func (f *fixture) addMonth(at time.Time) {
	f.t.Helper()
	f.exec(`SELECT airlock_add_month($1)`, at)
}

// rows counts what is left of a job, by table.
func (f *fixture) rows(id job.ID) int {
	f.t.Helper()
	return value[int](f, `SELECT
		(SELECT count(*) FROM jobs WHERE id = $1) + (SELECT count(*) FROM attempts WHERE job = $1) +
		(SELECT count(*) FROM tool_calls WHERE job = $1) + (SELECT count(*) FROM artifacts WHERE job = $1) +
		(SELECT count(*) FROM job_keys WHERE job = $1) + (SELECT count(*) FROM announcements WHERE job = $1)`, [16]byte(id))
}

const day = 24 * time.Hour

func (f *fixture) retire(keep time.Duration) job.Retired {
	f.t.Helper()
	done, err := f.Retire(f.t.Context(), keep)
	if err != nil {
		f.t.Fatalf("retire: %v", err)
	}
	return done
}

var ignoreBytes = cmpopts.IgnoreFields(job.RetiredMonth{}, "Bytes")

// workerOn is a store with the rights of a worker, on a fixture that looks with
// the owner's.
func workerOn(t *testing.T) *fixture {
	t.Helper()
	f := open(t)
	f.Store = storetest.OpenURL(t, asRole(t, f.url, "airlock_worker"))
	return f
}

func TestRetireDropsWholeMonths(t *testing.T) {
	t.Parallel()
	f := workerOn(t)
	for _, n := range []int{5, 4, 3, 2, 1} {
		f.addMonth(monthsAgo(n))
	}
	old, dead := f.past(monthsAgo(5)), jobAt(t, monthsAgo(5), tries(1))
	f.retry(f.claim(dead, 1, "w"), 0)
	f.endedAt(dead.ID, monthsAgo(5)) // its announcement is still owed, and goes with it
	untold := f.rows(dead.ID)
	want(t, "rows of a dead letter", untold, 3)

	open := jobAt(t, monthsAgo(4))
	f.record(t, open)
	besides := f.past(monthsAgo(4))
	late := f.past(monthsAgo(3))
	f.endedAt(late.ID, time.Now())
	young := f.past(monthsAgo(1))

	got := f.retire(60 * day)
	month := func(n int, kept string, jobs, dead int64) job.RetiredMonth {
		return job.RetiredMonth{Name: monthsAgo(n).Format("2006-01"), Kept: kept, Jobs: jobs, Dead: dead}
	}
	// The second month is past too, or not yet, by the day of the month.
	got.Months = slices.DeleteFunc(got.Months, func(m job.RetiredMonth) bool { return m.Name == month(2, "", 0, 0).Name })
	expected := job.Retired{Months: []job.RetiredMonth{month(5, "", 2, 1), month(4, "open", 2, 0), month(3, "recent", 1, 0)}}
	want(t, "retired", got, expected, ignoreBytes)
	want(t, "gone", got.Gone(), 2)
	if got.Months[0].Bytes <= 0 {
		t.Error("got no bytes of a month that was dropped")
	}
	for name, j := range map[string]*job.Job{"old": old, "dead": dead} {
		want(t, "rows of "+name, f.rows(j.ID), 0)
	}
	for name, rows := range map[*job.Job]int{besides: 5, late: 5, young: 5, open: 1} {
		want(t, "rows of a job that is kept", f.rows(name.ID), rows)
	}
	// What is there goes on: the open month too, once it has ended.
	f.finish(f.claim(open, 1, "w"), resultOf(&job.Attempt{Job: open, Number: 1, Worker: "w"}, job.StatusOK))
	f.endedAt(open.ID, monthsAgo(4))
	f.endedAt(late.ID, monthsAgo(3))
	again := f.retire(60 * day)
	want(t, "gone later", again.Gone(), 3)
	want(t, "tables of months gone", value[int](f, `SELECT count(*) FROM pg_class WHERE relname ~ $1`,
		monthsAgo(5).Format("2006_01")+"|"+monthsAgo(4).Format("2006_01")+"|"+monthsAgo(3).Format("2006_01")), 0)
	f.past(time.Now())
}

// TestDroppedJobsDoNotComeBack: a message of theirs may still lie in a queue.
func TestDroppedJobsDoNotComeBack(t *testing.T) {
	t.Parallel()
	f := workerOn(t)
	f.addMonth(monthsAgo(3))
	old := f.past(monthsAgo(3), withKey("k"))
	stray := f.past(monthsAgo(7))
	openStray := jobAt(t, monthsAgo(7))
	f.record(t, openStray)
	got := f.retire(30 * day)
	want(t, "strays", got.Strays, 1)
	want(t, "rows of a stray", f.rows(stray.ID), 0)
	fresh := newJob(t, withKey("fresh"))
	for _, j := range []*job.Job{old, stray} {
		// Beside a job that is claimed in the same transaction or not.
		got := make(chan job.Claim)
		go func() { got <- f.ask(j, 1, "other") }()
		f.ask(fresh, 1, "w")
		want(t, "claim of a dropped job", (<-got).Verdict, job.Ended)
		if err := f.RecordQueued(t.Context(), []job.Queued{queued(t, j)}); err != nil {
			t.Error(err)
		}
		want(t, "rows after its message came again", f.rows(j.ID), 0)
	}
	want(t, "state of the job beside them", f.state(fresh.ID), job.StateRunning)
	// The key is free; and an old job that is known goes on.
	f.claim(newJob(t, withKey("k")), 1, "w")
	f.claim(openStray, 1, "w")
}

func TestManyKeysAreForgottenFirst(t *testing.T) {
	t.Parallel()
	f := workerOn(t)
	f.addMonth(monthsAgo(3))
	old := f.past(monthsAgo(3))
	f.exec(`INSERT INTO job_keys (tenant, key_digest, job, content_digest)
		SELECT 'acme', sha256(n::text::bytea), $1, sha256('x') FROM generate_series(1, 12000) n`, [16]byte(old.ID))
	mine := newJob(t, withKey("mine"))
	f.claim(mine, 1, "w")
	want(t, "gone", f.retire(30*day).Gone(), 1)
	want(t, "keys", value[int](f, `SELECT count(*) FROM job_keys`), 1)
}

// TestRetireKeepsWhatTheOwnerWants: a worker that was taken over cannot drop
// history that is younger.
func TestRetireKeepsWhatTheOwnerWants(t *testing.T) {
	t.Parallel()
	f := workerOn(t)
	f.addMonth(monthsAgo(3))
	old := f.past(monthsAgo(3))
	if _, err := f.Retire(t.Context(), day-time.Second); err == nil {
		t.Error("got no error of less than a day")
	}
	f.exec(`UPDATE retention SET at_least = '1000 days'`)
	if _, err := f.Retire(t.Context(), 999*day); !isRefused(errors.Unwrap(err)) {
		t.Errorf("got %v, want a refusal", err)
	}
	conn, err := pgx.Connect(t.Context(), asRole(t, f.url, "airlock_worker"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	month := old.ID.Time().Format(time.DateOnly)
	for _, sql := range []string{
		`UPDATE retention SET at_least = '1 day'`, `DELETE FROM retention`, `DROP TABLE jobs_` + old.ID.Time().Format("2006_01"),
		`SELECT airlock_drop_month('` + month + `', now())`, `SELECT airlock_drop_month('` + month + `', NULL)`,
		`SELECT airlock_forget_keys('` + month + `', '-infinity', 10)`,
		`SELECT airlock_drop_strays(now() - interval '999 days', 10)`,
		`SELECT set_config('airlock.retiring', 'on', false); DELETE FROM attempts`,
	} {
		if _, err := conn.Exec(t.Context(), sql); !isRefused(err) {
			t.Errorf("%s: got %v, want a refusal", sql, err)
		}
	}
	want(t, "rows", f.rows(old.ID), 5)
	f.exec(`UPDATE retention SET at_least = '1 day'`)
	want(t, "gone", f.retire(day).Gone(), 1)
}

// TestRetireStallsNobody: while somebody reads, the month stays, and who comes
// behind does not wait for long.
func TestRetireStallsNobody(t *testing.T) {
	t.Parallel()
	f := workerOn(t)
	f.addMonth(monthsAgo(3))
	old := f.past(monthsAgo(3))
	release := f.lockJob(f.past(time.Now()).ID) // a long transaction on jobs
	done := make(chan job.Retired)
	go func() {
		got, err := f.Retire(t.Context(), 30*day)
		if err != nil {
			t.Error(err)
		}
		done <- got
	}()
	var got job.Retired
	for claims := 0; got.Months == nil; claims++ {
		select {
		case got = <-done:
			if claims == 0 {
				t.Error("no claim was made meanwhile")
			}
		default:
			f.claim(newJob(t), 1, "w")
		}
	}
	want(t, "kept", got.Months[0].Kept, job.KeptBusy)
	want(t, "rows", f.rows(old.ID), 5)
	release()
	want(t, "gone", f.retire(30*day).Gone(), 1)
}

// TestMonthsRescueTheDefault: a month whose first jobs came before its tables.
func TestMonthsRescueTheDefault(t *testing.T) {
	t.Parallel()
	f := workerOn(t)
	next := time.Now().UTC().AddDate(0, 3, 0)
	var early []*job.Job
	for range 3 {
		early = append(early, f.past(next))
	}
	running := jobAt(t, next)
	a := f.claim(running, 1, "w")
	c := callOf(a, 1)
	f.started(a, c)
	other := jobAt(t, next.AddDate(0, 5, 0))
	f.record(t, other)
	part := func(j *job.Job) string {
		return value[string](f, `SELECT tableoid::regclass::text FROM jobs WHERE id = $1`, [16]byte(j.ID))
	}
	want(t, "table before", part(early[0]), "jobs_default")
	if err := f.EnsurePartitions(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	for _, j := range append(early, running) {
		want(t, "table after", part(j), "jobs_"+next.Format("2006_01"))
	}
	want(t, "rows of a job", f.rows(early[0].ID), 5)
	want(t, "table of another month's job", part(other), "jobs_default")
	for _, table := range []string{"attempts", "tool_calls", "artifacts"} {
		want(t, table+" left behind", value[int](f, `SELECT count(*) FROM `+table+`_default`), 0)
	}
	// What was moved goes on.
	f.ended(a, endOf(c, job.CallOK))
	f.finish(a, resultOf(a, job.StatusOK))
	for _, sql := range []string{`DELETE FROM attempts`, `UPDATE attempts SET stdout = 'x'`, `DELETE FROM tool_calls`} {
		if _, err := f.sql.Exec(t.Context(), sql); !isRefused(err) {
			t.Errorf("%s: got %v, want a refusal in a month that was made", sql, err)
		}
	}
}

// TestMonthsHoldTogether: each table of each month refers to its own month's,
// and no table is without.
func TestMonthsHoldTogether(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.addMonth(monthsAgo(2))
	f.addMonth(time.Now().AddDate(0, 4, 0))
	suffixes := value[[]string](f, `SELECT array_agg(substr(relname, 6)) FROM pg_class WHERE oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = 'jobs'::regclass)`)
	if len(suffixes) < 4 {
		t.Fatalf("got months %v, want four or more", suffixes)
	}
	id := [16]byte(job.NewID())
	for _, suffix := range suffixes {
		for table, parent := range map[string]string{"attempts": "jobs", "tool_calls": "attempts", "artifacts": "attempts"} {
			got := value[string](f, `SELECT confrelid::regclass::text FROM pg_constraint WHERE contype = 'f' AND conrelid = $1::regclass`, table+"_"+suffix)
			want(t, "what "+table+"_"+suffix+" refers to", got, parent+"_"+suffix)
		}
	}
	want(t, "references between whole tables", value[int](f, `SELECT count(*) FROM pg_constraint WHERE contype = 'f' AND conrelid IN (
		SELECT partrelid FROM pg_partitioned_table)`), 0)
	for _, sql := range []string{
		`INSERT INTO attempts (job, number, generation, worker, backend, outcome, started_at) VALUES ($1, 1, 1, '', '', 'running', now())`,
		`INSERT INTO tool_calls (job, attempt, seq, namespace, name, state, started_at) VALUES ($1, 1, 1, '', '', 'started', now())`,
		`INSERT INTO artifacts (job, attempt, path, content, sha256) VALUES ($1, 1, 'a', '', sha256(''))`,
		`INSERT INTO job_keys (tenant, key_digest, job, content_digest) VALUES ('a', sha256(''), $1, sha256(''))`,
	} {
		if _, err := f.sql.Exec(t.Context(), sql, id); err == nil {
			t.Errorf("%s: got no error, though there is no such job", sql)
		}
	}
	a := f.claim(newJob(t, withKey("k")), 1, "w")
	if _, err := f.sql.Exec(t.Context(), `UPDATE job_keys SET job = $1`, id); err == nil {
		t.Error("a key was given to a job that does not exist")
	}
	if _, err := f.sql.Exec(t.Context(), fmt.Sprintf(`DELETE FROM jobs WHERE id = '%s'`, a.Job.ID)); err == nil {
		t.Error("a job was deleted that has an attempt")
	}
}
