package store_test

import (
	"context"
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"airlock/job"
	"airlock/store"
	"airlock/store/storetest"
)

// fixture is a store with its database and a way to look behind it.
type fixture struct {
	*store.Store
	t   testing.TB
	url string
	sql *pgx.Conn
}

func open(t testing.TB) *fixture {
	t.Helper()
	return openOn(t, storetest.URL(t))
}

func openOn(t testing.TB, url string) *fixture {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return &fixture{Store: storetest.OpenURL(t, url), t: t, url: url, sql: conn}
}

// exec runs SQL behind the store's back.
func (f *fixture) exec(sql string, args ...any) {
	f.t.Helper()
	if _, err := f.sql.Exec(f.t.Context(), sql, args...); err != nil {
		f.t.Fatalf("%s: %v", sql, err)
	}
}

// value reads a single value behind the store's back.
func value[T any](f *fixture, sql string, args ...any) T {
	f.t.Helper()
	var v T
	if err := f.sql.QueryRow(f.t.Context(), sql, args...).Scan(&v); err != nil {
		f.t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// newJob makes a prepared job, changed by the given functions first.
func newJob(t testing.TB, change ...func(*job.Job)) *job.Job {
	t.Helper()
	j := &job.Job{Code: "print('hello')", Tenant: "acme"}
	for _, c := range change {
		c(j)
	}
	if err := j.Prepare(time.Now()); err != nil {
		t.Fatalf("prepare job: %v", err)
	}
	return j
}

func inBatch(name string) func(*job.Job) { return func(j *job.Job) { j.Batch = name } }
func withKey(key string) func(*job.Job)  { return func(j *job.Job) { j.Key = key } }
func tries(n int) func(*job.Job)         { return func(j *job.Job) { j.MaxAttempts = n } }

// ask makes a claim that must not err.
func (f *fixture) ask(j *job.Job, generation int, worker string) job.Claim {
	f.t.Helper()
	got, err := f.Claim(f.t.Context(), job.ClaimRequest{
		Job: j, Generation: generation, Worker: worker, Backend: "fake", Queued: time.Now(),
	})
	if err != nil {
		f.t.Fatalf("claim: %v", err)
	}
	return got
}

// claim makes a claim that must succeed.
func (f *fixture) claim(j *job.Job, generation int, worker string) *job.Attempt {
	f.t.Helper()
	got := f.ask(j, generation, worker)
	if got.Verdict != job.Claimed {
		f.t.Fatalf("claim: got %v, want claimed", got.Verdict)
	}
	return &job.Attempt{Job: j, Number: got.Attempt, Worker: worker, Backend: "fake", Queued: got.Queued}
}

func (f *fixture) finish(a *job.Attempt, r *job.Result) {
	f.t.Helper()
	if err := f.Finish(f.t.Context(), a, r, 0); err != nil {
		f.t.Fatalf("finish: %v", err)
	}
}

// loseLease makes the job's lease end some time ago.
func (f *fixture) loseLease(id job.ID) {
	f.t.Helper()
	f.exec(`UPDATE jobs SET lease_until = now() - interval '1 minute' WHERE id = $1`, [16]byte(id))
}

func (f *fixture) state(id job.ID) job.State {
	f.t.Helper()
	return value[job.State](f, `SELECT state FROM jobs WHERE id = $1`, [16]byte(id))
}

// resultOf is a plain result of the attempt.
func resultOf(a *job.Attempt, status job.Status) *job.Result {
	code := 0
	return &job.Result{
		Job: a.Job.ID, Key: a.Job.Key, Tenant: a.Job.Tenant, Batch: a.Job.Batch, Status: status,
		Value: jsontext.Value(`42`), Stdout: job.Bytes("hello\n"), StdoutBytes: 6, ExitCode: &code,
		Usage:   job.Usage{Wall: job.Duration(20 * time.Millisecond), PeakMemory: 10 * job.MiB},
		Attempt: a.Number, Worker: a.Worker, Backend: a.Backend,
	}
}

func infraError(a *job.Attempt) *job.Result {
	r := resultOf(a, job.StatusInfraError)
	r.Value, r.Error = nil, &job.Error{Type: "sandbox", Message: "it did not start"}
	return r
}

// want reports a difference; the arguments are got, want.
func want(t testing.TB, what string, got, want any, opts ...cmp.Option) {
	t.Helper()
	if diff := cmp.Diff(want, got, opts...); diff != "" {
		t.Errorf("%s: got %v, want %v (-want +got):\n%s", what, got, want, diff)
	}
}

func wantError(t testing.TB, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: got error %v, want %v", what, got, want)
	}
}

func withPassword(t testing.TB, raw, password string) string {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(u.User.Username(), password)
	return u.String()
}
