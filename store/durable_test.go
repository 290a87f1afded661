package store_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"airlock/job"
	"airlock/standalone"
	"airlock/store"
	"airlock/store/storetest"
)

// TestServerCrashRightAfterClaims kills Postgres while commits that did not
// wait for the disk may be in its memory only. What a worker told anybody of,
// or acknowledges for, is there afterwards; a claim that is gone has fenced its
// worker off, and can be made again.
func TestServerCrashRightAfterClaims(t *testing.T) {
	t.Parallel()
	pg := storetest.Server(t)
	if err := store.Migrate(t.Context(), pg.URL(), storetest.Log(t)); err != nil {
		t.Fatal(err)
	}
	f := openOn(t, pg.URL())
	crash := func(act func()) {
		crashAfter(t, pg, act)
		// The connections of before are found dead one by one.
		f = openOn(t, pg.URL())
	}
	finished, calling, plain := newJob(t), newJob(t), newJob(t)
	early := newJob(t, func(j *job.Job) { j.NotBefore = time.Now().Add(time.Hour) })

	crash(func() {
		a := f.claim(finished, 1, "w")
		f.finish(a, resultOf(a, job.StatusOK))
	})
	want(t, "state of the job that had ended", f.state(finished.ID), job.StateFinished)
	var caller *job.Attempt
	crash(func() {
		caller = f.claim(calling, 1, "w")
		if err := f.CallStarted(t.Context(), caller, callOf(caller, 1)); err != nil {
			t.Fatal(err)
		}
	})
	want(t, "state of the job that had called", f.state(calling.ID), job.StateRunning)
	result := resultOf(caller, job.StatusOK)
	result.ToolCalls = 1
	wantError(t, "finish while a call is open", f.Finish(t.Context(), caller, result, 0), store.ErrOpenCall)
	crash(func() {
		call := callOf(caller, 1)
		call.State, call.Answer, call.Ended = job.CallOK, []byte(`1`), time.Now()
		if err := f.CallEnded(t.Context(), caller, call); err != nil {
			t.Fatal(err)
		}
	})
	if value[string](f, `SELECT state FROM tool_calls WHERE job = $1`, [16]byte(calling.ID)) == "ok" {
		f.finish(caller, result)
	} else {
		wantError(t, "finish without the end of a call", f.Finish(t.Context(), caller, result, 0), store.ErrOpenCall)
		result.Status = job.StatusInfraError
		f.finish(caller, result)
	}
	crash(func() { want(t, "verdict", f.ask(early, 1, "w").Verdict, job.Postponed) })
	want(t, "state of the job that was put off", f.state(early.ID), job.StateRetryWait)

	var first *job.Attempt
	crash(func() { first = f.claim(plain, 1, "w") })
	if again := f.ask(plain, 1, "other"); again.Verdict == job.Claimed {
		wantError(t, "finish of the claim that was taken back", f.Finish(t.Context(), first, resultOf(first, job.StatusOK), 0), job.ErrFenced)
		first = &job.Attempt{Job: plain, Number: again.Attempt, Worker: "other", Backend: "fake"}
	}
	f.finish(first, resultOf(first, job.StatusOK))
	want(t, "results", value[int](f, `SELECT count(*) FROM attempts WHERE job = $1 AND outcome = 'finished'`, [16]byte(plain.ID)), 1)
}

// crashAfter kills the server right after act, and starts it again.
func crashAfter(t *testing.T, pg *standalone.Postgres, act func()) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(filepath.Dir(pg.LogFile()), "data", "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(raw), "\n")
	pid, err := strconv.Atoi(first)
	if err != nil {
		t.Fatal(err)
	}
	server, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	act()
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := pg.Stop(); err != nil {
		t.Logf("stop what was killed: %v", err)
	}
	// Its processes end by and by, and until then hold its memory.
	eventually(t, "postgres starts after its crash", func() bool { return pg.Start(t.Context()) == nil })
}
