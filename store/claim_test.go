package store_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"airlock/job"
)

func TestClaimVerdicts(t *testing.T) {
	t.Parallel()
	f := open(t)
	later := func(j *job.Job) { j.NotBefore = time.Now().Add(time.Hour) }
	for _, test := range []struct {
		name       string
		change     func(*job.Job)
		before     func(t *testing.T, j *job.Job)
		asked      func(*job.Job) // how the claimed job differs from the stored one
		generation int
		want       job.Verdict
	}{
		{name: "unknown job", want: job.Claimed},
		{name: "unknown job before its time", change: later, want: job.Postponed},
		{name: "recorded job", want: job.Claimed, before: func(t *testing.T, j *job.Job) {
			f.record(t, j)
		}},
		{name: "recorded job before its time", change: later, want: job.Postponed, before: func(t *testing.T, j *job.Job) {
			f.record(t, j)
		}},
		{name: "held by another", want: job.Held, before: func(t *testing.T, j *job.Job) {
			f.claim(j, 1, "other")
		}},
		{name: "held by the same worker, which was not told", want: job.Claimed, before: func(t *testing.T, j *job.Job) {
			f.claim(j, 1, "me")
		}},
		{name: "lease ended", want: job.Claimed, before: func(t *testing.T, j *job.Job) {
			f.claim(j, 1, "other")
			f.loseLease(j.ID)
		}},
		{name: "lease ended for the last time", change: tries(1), want: job.Held, before: func(t *testing.T, j *job.Job) {
			f.claim(j, 1, "other")
			f.loseLease(j.ID)
		}},
		{name: "finished", want: job.Ended, before: func(t *testing.T, j *job.Job) {
			a := f.claim(j, 1, "other")
			f.finish(a, resultOf(a, job.StatusOK))
		}},
		{name: "cancelled while it waited", want: job.Ended, before: func(t *testing.T, j *job.Job) {
			f.record(t, j)
			if _, err := f.Cancel(t.Context(), "acme", j.ID); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "released", want: job.Claimed, before: func(t *testing.T, j *job.Job) {
			if err := f.Release(t.Context(), f.claim(j, 1, "other")); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "waits for its retry", want: job.Postponed, before: func(t *testing.T, j *job.Job) {
			f.retry(f.claim(j, 1, "other"), time.Hour)
		}},
		{name: "retry is due", want: job.Claimed, before: func(t *testing.T, j *job.Job) {
			f.retry(f.claim(j, 1, "other"), 0)
		}},
		{name: "older generation", want: job.Superseded, before: func(t *testing.T, j *job.Job) {
			f.retry(f.claim(j, 1, "other"), 0)
			f.takeDue(t)
		}},
		{name: "newer generation", want: job.Claimed, generation: 2, before: func(t *testing.T, j *job.Job) {
			f.retry(f.claim(j, 1, "other"), 0)
			f.takeDue(t)
		}},
		{name: "other code", want: job.Mismatched, asked: func(j *job.Job) { j.Code = "other" }, before: func(t *testing.T, j *job.Job) {
			f.record(t, j)
		}},
		{name: "other tenant", want: job.Mismatched, asked: func(j *job.Job) { j.Tenant = "other" }, before: func(t *testing.T, j *job.Job) {
			f.record(t, j)
		}},
		{name: "other tenant's finished job", want: job.Mismatched, asked: func(j *job.Job) { j.Tenant = "other" }, before: func(t *testing.T, j *job.Job) {
			a := f.claim(j, 1, "other")
			f.finish(a, resultOf(a, job.StatusOK))
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			j := newJob(t)
			if test.change != nil {
				j = newJob(t, test.change)
			}
			if test.before != nil {
				test.before(t, j)
			}
			asked := *j
			if test.asked != nil {
				test.asked(&asked)
			}
			got := f.ask(&asked, max(test.generation, 1), "me")
			want(t, "verdict", got.Verdict.String(), test.want.String())
			if test.want == job.Held && (got.LeaseLeft <= 0 || got.LeaseLeft > job.Lease) {
				t.Errorf("lease left: got %v, want more than 0 and at most %v", got.LeaseLeft, job.Lease)
			}
			if test.want == job.Claimed && got.Attempt < 1 {
				t.Errorf("attempt: got %d, want at least 1", got.Attempt)
			}
		})
	}
}

// record stores the job as queued.
func (f *fixture) record(t testing.TB, jobs ...*job.Job) {
	t.Helper()
	var rows []job.Queued
	for _, j := range jobs {
		rows = append(rows, queued(t, j))
	}
	if err := f.RecordQueued(t.Context(), rows); err != nil {
		t.Fatalf("record queued: %v", err)
	}
}

func (f *fixture) retry(a *job.Attempt, after time.Duration) job.State {
	f.t.Helper()
	state, err := f.Retry(f.t.Context(), a, infraError(a), after)
	if err != nil {
		f.t.Fatalf("retry: %v", err)
	}
	return state
}

func (f *fixture) takeDue(t testing.TB) []job.Republish {
	t.Helper()
	due, err := f.TakeDue(t.Context(), 100)
	if err != nil {
		t.Fatalf("take due: %v", err)
	}
	return due
}

func TestClaimTakesOverLostAttempt(t *testing.T) {
	t.Parallel()
	f := open(t)
	j := newJob(t)
	f.claim(j, 1, "gone")
	f.loseLease(j.ID)
	a := f.claim(j, 1, "me")
	want(t, "attempt", a.Number, 2)
	rec, err := f.Job(t.Context(), "acme", j.ID)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "failures", rec.Failures, 1)
	want(t, "outcomes", outcomes(rec), []string{"lost", "running"})
	want(t, "status of the lost attempt", rec.Attempts[0].Status, job.StatusInfraError)
}

// TestClaimWhoseAnswerWasLost: the worker that asks again has the job at once,
// and nobody counts the attempt that it never knew of.
func TestClaimWhoseAnswerWasLost(t *testing.T) {
	t.Parallel()
	f := open(t)
	j := newJob(t, func(j *job.Job) { j.MaxAttempts = 1 })
	first := f.claim(j, 1, "me")
	want(t, "verdict for another", f.ask(j, 1, "you").Verdict, job.Held)
	for number := 2; number <= 5; number++ {
		want(t, "attempt", f.claim(j, 1, "me").Number, number)
	}
	rec, err := f.Job(t.Context(), "acme", j.ID)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "outcomes", outcomes(rec), []string{"released", "released", "released", "released", "running"})
	want(t, "failures", rec.Failures, 0)
	want(t, "deaths", value[int](f, `SELECT deaths FROM jobs WHERE id = $1`, [16]byte(j.ID)), 0)
	if err := f.Finish(t.Context(), first, resultOf(first, job.StatusOK), 0); !errors.Is(err, job.ErrFenced) {
		t.Errorf("finish of an attempt that was released: got %v, want %v", err, job.ErrFenced)
	}
}

func TestOneOfManyClaimsWins(t *testing.T) {
	t.Parallel()
	f := open(t)
	other := openOn(t, f.url)
	for _, recorded := range []bool{false, true} {
		j := newJob(t, withKey("k-"+job.NewID().String()))
		if recorded {
			f.record(t, j)
		}
		verdicts := make([]job.Verdict, 20)
		var asking sync.WaitGroup
		for i := range verdicts {
			asking.Go(func() {
				on := []*fixture{f, other}[i%2]
				got, err := on.Claim(t.Context(), job.ClaimRequest{Job: j, Generation: 1, Worker: "w" + string(rune('a'+i)), Backend: "fake"})
				if err != nil {
					t.Error(err)
				}
				verdicts[i] = got.Verdict
			})
		}
		asking.Wait()
		count := map[job.Verdict]int{}
		for _, v := range verdicts {
			count[v]++
		}
		want(t, "verdicts", count, map[job.Verdict]int{job.Claimed: 1, job.Held: 19})
		want(t, "attempts", value[int](f, `SELECT count(*) FROM attempts WHERE job = $1`, [16]byte(j.ID)), 1)
	}
}

func TestKeyOfAnotherJob(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		change   func(*job.Job)
		recorded bool
		want     string
	}{
		{name: "same content", want: "duplicate_key"},
		{name: "other content", change: func(j *job.Job) { j.Code = "other" }, want: "key_conflict"},
		{name: "recorded first", recorded: true, want: "duplicate_key"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := open(t)
			first := newJob(t, withKey("k"))
			f.claim(first, 1, "w")
			second := newJob(t, withKey("k"))
			if test.change != nil {
				second = newJob(t, withKey("k"), test.change)
			}
			if test.recorded {
				f.record(t, second)
			}
			want(t, "verdict", f.ask(second, 1, "w").Verdict.String(), job.Ended.String())
			want(t, "verdict of the repeat", f.ask(second, 1, "w").Verdict.String(), job.Ended.String())
			r, err := f.Result(t.Context(), "acme", second.ID)
			if err != nil {
				t.Fatal(err)
			}
			want(t, "status", r.Status, job.StatusCancelled)
			want(t, "error type", r.Error.Type, test.want)
			unannounced, err := f.Unannounced(t.Context(), 0, 10)
			if err != nil {
				t.Fatal(err)
			}
			want(t, "unannounced results", len(unannounced), 1)
			// The key is free in another tenant.
			elsewhere := newJob(t, withKey("k"), func(j *job.Job) { j.Tenant = "other" })
			want(t, "verdict in another tenant", f.ask(elsewhere, 1, "w").Verdict.String(), job.Claimed.String())
		})
	}
}

func TestClaimKeepsFirstQueueTime(t *testing.T) {
	t.Parallel()
	f := open(t)
	j := newJob(t)
	first := queued(t, j)
	first.At = time.Now().Add(-time.Hour).Truncate(time.Millisecond)
	if err := f.RecordQueued(t.Context(), []job.Queued{first}); err != nil {
		t.Fatal(err)
	}
	want(t, "queued", f.ask(j, 1, "w").Queued, first.At.UTC())
}

func TestHeartbeat(t *testing.T) {
	t.Parallel()
	f := open(t)
	mine, lost, foreign, done := newJob(t), newJob(t), newJob(t), newJob(t)
	a := f.claim(mine, 1, "me")
	b := f.claim(lost, 1, "me")
	f.loseLease(lost.ID)
	f.claim(lost, 1, "other")
	c := f.claim(foreign, 1, "other")
	d := f.claim(done, 1, "me")
	f.finish(d, resultOf(d, job.StatusOK))
	f.loseLease(mine.ID) // nobody took it, so that it is still to be had
	if state, err := f.Cancel(t.Context(), "acme", mine.ID); err != nil || state != job.StateRunning {
		t.Fatalf("cancel: got %v, %v, want running", state, err)
	}
	got, err := f.Heartbeat(t.Context(), "me", []job.Holding{
		{Job: mine.ID, Attempt: a.Number}, {Job: lost.ID, Attempt: b.Number}, {Job: foreign.ID, Attempt: c.Number},
		{Job: done.ID, Attempt: d.Number}, {Job: job.NewID(), Attempt: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "leases", got, []job.Heartbeat{{Holding: job.Holding{Job: mine.ID, Attempt: 1}, CancelRequested: true}})
	left := value[float64](f, `SELECT extract(EPOCH FROM lease_until - now())::float8 FROM jobs WHERE id = $1`, [16]byte(mine.ID))
	if left <= 30 {
		t.Errorf("lease left after the heartbeat: got %v s, want about %v", left, job.Lease)
	}
}
