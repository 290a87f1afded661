package store_test

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jackc/pgx/v5"

	"airlock/job"
	"airlock/store"
)

func outcomes(rec job.Record) []string {
	var all []string
	for _, a := range rec.Attempts {
		all = append(all, a.Outcome)
	}
	return all
}

func TestFinishStoresWholeResult(t *testing.T) {
	t.Parallel()
	f := open(t)
	j := newJob(t, inBatch("b"), withKey("k"), func(j *job.Job) { j.Labels = map[string]string{"suite": "x"} })
	a := f.claim(j, 1, "w")
	code := -1
	r := &job.Result{
		Job: j.ID, Key: "k", Tenant: "acme", Batch: "b", Status: job.StatusGuestError,
		Value: jsontext.Value(`{"n": 1152921504606846977}`), Lossy: true,
		Error:  &job.Error{Type: "ValueError", Message: "no", Traceback: "line 3"},
		Stdout: job.Bytes("out"), StdoutBytes: 200_000, StdoutTruncated: true,
		Stderr: job.Bytes("err"), StderrBytes: 3, ExitCode: &code, Signal: "SIGKILL", ToolCalls: 5,
		Events: []job.Event{{Kind: job.EventOOM, Count: 2, Note: "child"}},
		Usage: job.Usage{
			Wall: job.Duration(1500 * time.Millisecond), CPU: job.Duration(time.Second), ToolWait: job.Duration(time.Millisecond),
			QueueWait: job.Duration(time.Second), Startup: job.Duration(2 * time.Millisecond), PeakMemory: 7, PeakProcesses: 3,
		},
		Attempt: 1, Worker: "w", Backend: "fake",
		Isolation: job.Isolated{Level: job.IsolationStrong, Limits: map[job.LimitName]string{job.LimitCPU: "cgroup"}},
		AuditHead: "abcd", Artifacts: []job.Artifact{kept("a", "x"), {Path: "l", Size: 4, Reason: job.ReasonLink}}, Verdict: "pass",
	}
	f.finish(a, r)
	got, err := f.Result(t.Context(), "acme", j.ID)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "result", got, r, cmpopts.IgnoreFields(job.Result{}, "Finished"), cmpopts.IgnoreFields(job.Artifact{}, "Content"))
	if since := time.Since(got.Finished); since < -time.Minute || since > time.Minute {
		t.Errorf("finished: got %v, want about now", got.Finished)
	}
	want(t, "value for querying", value[string](f, `SELECT value_json ->> 'n' FROM job_results WHERE job = $1`, [16]byte(j.ID)), "1152921504606846977")
}

func TestFinishIsFenced(t *testing.T) {
	t.Parallel()
	f := open(t)
	j := newJob(t)
	zombie := f.claim(j, 1, "zombie")
	f.loseLease(j.ID)
	holder := f.claim(j, 1, "holder")
	wantError(t, "finish of the zombie", f.Finish(t.Context(), zombie, resultOf(zombie, job.StatusTimeout), 0), job.ErrFenced)
	if _, err := f.Retry(t.Context(), zombie, infraError(zombie), 0); !errors.Is(err, job.ErrFenced) {
		t.Errorf("retry of the zombie: got %v, want %v", err, job.ErrFenced)
	}
	wantError(t, "release of the zombie", f.Release(t.Context(), zombie), job.ErrFenced)
	liar := *holder
	liar.Worker = "liar"
	wantError(t, "finish under another name", f.Finish(t.Context(), &liar, resultOf(&liar, job.StatusTimeout), 0), job.ErrFenced)
	want(t, "state", f.state(j.ID), job.StateRunning)

	f.finish(holder, resultOf(holder, job.StatusOK))
	f.finish(holder, resultOf(holder, job.StatusOK)) // delivered twice
	wantError(t, "finish of the zombie after the end", f.Finish(t.Context(), zombie, resultOf(zombie, job.StatusTimeout), 0), job.ErrFenced)
	rec, err := f.Job(t.Context(), "acme", j.ID)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "status", rec.Status, job.StatusOK)
	want(t, "outcomes", outcomes(rec), []string{"lost", "finished"})
}

func TestFinishOfInfraErrorIsDead(t *testing.T) {
	t.Parallel()
	f := open(t)
	j := newJob(t)
	a := f.claim(j, 1, "w")
	f.finish(a, infraError(a))
	want(t, "state", f.state(j.ID), job.StateDead)
}

func TestRetryUntilDead(t *testing.T) {
	t.Parallel()
	f := open(t)
	j := newJob(t, tries(2))
	a := f.claim(j, 1, "w")
	want(t, "state after the first", f.retry(a, 0), job.StateRetryWait)
	want(t, "state after its repeat", f.retry(a, 0), job.StateRetryWait)
	due := f.takeDue(t)
	want(t, "due", len(due), 1)
	want(t, "generation", due[0].Generation, 2)
	want(t, "reason", due[0].Reason, "retry")
	want(t, "job", due[0].Job, j, cmpopts.EquateEmpty())

	b := f.claim(due[0].Job, 2, "w")
	want(t, "state after the second", f.retry(b, 0), job.StateDead)
	want(t, "state after its repeat", f.retry(b, 0), job.StateDead)
	r, err := f.Result(t.Context(), "acme", j.ID)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "status", r.Status, job.StatusInfraError)
	want(t, "error", r.Error, &job.Error{Type: "sandbox", Message: "it did not start"})
	unannounced, err := f.Unannounced(t.Context(), 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "unannounced", len(unannounced), 1)
}

// TestRetryOfAGuestsFailure: it counts like one of ours, and the last one is
// the job's result and not its death. Every try stands beside it.
func TestRetryOfAGuestsFailure(t *testing.T) {
	t.Parallel()
	f := open(t)
	j := newJob(t, tries(2), inBatch("b"), func(j *job.Job) { j.RetryOn = []job.Status{job.StatusTimeout} })
	a := f.claim(j, 1, "w")
	again := func(a *job.Attempt) job.State {
		r := resultOf(a, job.StatusTimeout)
		r.Error = &job.Error{Type: "timeout", Message: strings.Repeat("ä", 900)}
		state, err := f.Retry(t.Context(), a, r, 0)
		if err != nil {
			t.Fatalf("retry: %v", err)
		}
		return state
	}
	want(t, "state after the first", again(a), job.StateRetryWait)
	want(t, "state after its repeat", again(a), job.StateRetryWait)
	b := f.claim(f.takeDue(t)[0].Job, 2, "w2")
	want(t, "state after the second", again(b), job.StateFinished)
	want(t, "state after its repeat", again(b), job.StateFinished)
	if _, err := f.Retry(t.Context(), a, resultOf(a, job.StatusTimeout), 0); !errors.Is(err, job.ErrFenced) {
		t.Errorf("got error %v from an attempt that is over, want %v", err, job.ErrFenced)
	}

	for name, read := range map[string]func() (*job.Result, error){
		"result":      func() (*job.Result, error) { return f.Result(t.Context(), "acme", j.ID) },
		"batch":       func() (*job.Result, error) { return first(f.BatchResults(t.Context(), "acme", "b", job.ID{}, 9)) },
		"unannounced": func() (*job.Result, error) { return first(f.Unannounced(t.Context(), 0, 9)) },
	} {
		r, err := read()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		want(t, name+": status", r.Status, job.StatusTimeout)
		var got []string
		for _, a := range r.Attempts {
			got = append(got, fmt.Sprintf("%d %s %s %s %s", a.Number, a.Outcome, a.Status, a.Worker, a.Error.Type))
		}
		want(t, name+": attempts", got, []string{"1 failed timeout w timeout", "2 finished timeout w2 timeout"})
	}
}

func first[T any](all []T, err error) (T, error) {
	if err != nil || len(all) == 0 {
		var none T
		return none, errors.Join(err, errors.New("there is none"))
	}
	return all[0], nil
}

func TestReleaseDoesNotCount(t *testing.T) {
	t.Parallel()
	f := open(t)
	j := newJob(t, tries(1))
	for n := 1; n <= 3; n++ {
		a := f.claim(j, 1, "w")
		want(t, "attempt", a.Number, n)
		for range 2 {
			if err := f.Release(t.Context(), a); err != nil {
				t.Fatalf("release: %v", err)
			}
		}
	}
	rec, err := f.Job(t.Context(), "acme", j.ID)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "failures", rec.Failures, 0)
	want(t, "state", rec.State, job.StateQueued)
	want(t, "outcomes", outcomes(rec), []string{"released", "released", "released"})
}

func TestAnnounced(t *testing.T) {
	t.Parallel()
	f := open(t)
	a := f.claim(newJob(t), 1, "w")
	f.finish(a, resultOf(a, job.StatusOK))
	young, err := f.Unannounced(t.Context(), time.Hour, 10)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "unannounced for an hour", len(young), 0)
	all, err := f.Unannounced(t.Context(), 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "unannounced", len(all), 1)
	for range 2 {
		if err := f.Announced(t.Context(), a.Job.ID, 0); err != nil {
			t.Fatal(err)
		}
	}
	if all, err = f.Unannounced(t.Context(), 0, 10); err != nil || len(all) != 0 {
		t.Errorf("after announced: got %d, %v, want none", len(all), err)
	}
}

// TestPoisonedRow puts a result that the database must refuse between good
// ones of one transaction.
func TestPoisonedRow(t *testing.T) {
	t.Parallel()
	f := open(t)
	var attempts []*job.Attempt
	for range 30 {
		attempts = append(attempts, f.claim(newJob(t), 1, "w"))
	}
	blocker := f.claim(newJob(t), 1, "w")
	release := f.lockJob(blocker.Job.ID)
	errs := make([]error, len(attempts))
	var finishing sync.WaitGroup
	finishing.Go(func() {
		if err := f.Finish(t.Context(), blocker, resultOf(blocker, job.StatusOK), 0); err != nil {
			t.Errorf("finish of the blocker: %v", err)
		}
	})
	f.untilBlocked(1)
	for i, a := range attempts {
		finishing.Go(func() {
			r := resultOf(a, job.StatusOK)
			if i == 13 {
				r.Status = "bogus"
			}
			errs[i] = f.Finish(t.Context(), a, r, 0)
		})
	}
	release()
	finishing.Wait()
	for i, err := range errs {
		if (err != nil) != (i == 13) {
			t.Errorf("finish %d: got error %v", i, err)
		}
	}
	want(t, "finished", value[int](f, `SELECT count(*) FROM jobs WHERE state = 'finished'`), 30)
	want(t, "running", value[int](f, `SELECT count(*) FROM jobs WHERE state = 'running'`), 1)
}

// lockJob holds the job's row against all writers until released.
func (f *fixture) lockJob(id job.ID) (release func()) {
	f.t.Helper()
	conn, err := pgx.Connect(f.t.Context(), f.url)
	if err != nil {
		f.t.Fatal(err)
	}
	tx, err := conn.Begin(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	if _, err := tx.Exec(f.t.Context(), `SELECT FROM jobs WHERE id = $1 FOR UPDATE`, [16]byte(id)); err != nil {
		f.t.Fatal(err)
	}
	return func() {
		if err := errors.Join(tx.Rollback(f.t.Context()), conn.Close(f.t.Context())); err != nil {
			f.t.Error(err)
		}
	}
}

// untilBlocked waits until n sessions wait for a lock.
func (f *fixture) untilBlocked(n int) {
	f.t.Helper()
	eventually(f.t, fmt.Sprintf("%d sessions wait for a lock", n), func() bool {
		return value[int](f, `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`) >= n
	})
}

func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// TestUnannouncedReadsOnlyWhatIsOwed: its plan is kept, and was made when the
// tables were empty, which is when to begin with all attempts looks cheap.
func TestUnannouncedReadsOnlyWhatIsOwed(t *testing.T) {
	t.Parallel()
	f := open(t)
	for _, setting := range []string{
		"plan_cache_mode = force_generic_plan", "enable_seqscan = off", "enable_hashjoin = off", "enable_mergejoin = off",
	} {
		f.exec("SET " + setting)
	}
	f.exec("PREPARE owed AS " + store.UnannouncedSQL)
	plan := f.plan("EXECUTE owed(interval '5 seconds', 100)")
	scans := regexp.MustCompile(`Scan.* on (?:jobs|attempts)_\S+.*\n.*`).FindAllString(plan, -1)
	if len(scans) < 4 {
		t.Fatalf("got %d scans of jobs and attempts, want one of each partition:\n%s", len(scans), plan)
	}
	for _, scan := range scans {
		if !strings.Contains(scan, "Index Cond") {
			t.Errorf("got a scan without a condition, want one that looks a row up:\n%s\nin\n%s", scan, plan)
		}
	}
}

// TestUnannouncedWithoutAWorker: nobody else tells of a job that ended while
// it waited, so its submitter is not kept waiting for a grace time.
func TestUnannouncedWithoutAWorker(t *testing.T) {
	t.Parallel()
	f := open(t)
	waiting, ended := newJob(t), newJob(t)
	f.record(t, waiting)
	if _, err := f.Cancel(t.Context(), "acme", waiting.ID); err != nil {
		t.Fatal(err)
	}
	a := f.claim(ended, 1, "w")
	f.finish(a, resultOf(a, job.StatusOK))
	got, err := f.Unannounced(t.Context(), time.Hour, 10)
	if err != nil || len(got) != 1 || got[0].Job != waiting.ID {
		t.Errorf("unannounced: got %d results, %v; want only that of %s", len(got), err, waiting.ID)
	}
}
