package store_test

import (
	"testing"
	"time"

	"airlock/job"
)

// TestVoid: void is what a claim would call Ended, Superseded or Postponed.
func TestVoid(t *testing.T) {
	t.Parallel()
	f := workerOn(t)
	f.addMonth(monthsAgo(3))
	dropped, stray := f.past(monthsAgo(3)), f.past(monthsAgo(6))
	f.addMonth(monthsAgo(2))
	f.past(monthsAgo(2))
	f.retire(80 * day)
	f.retire(30 * day)
	waiting, running, ended, again, later := newJob(t), newJob(t), newJob(t), newJob(t), newJob(t, func(j *job.Job) {
		j.NotBefore = time.Now().Add(time.Hour)
	})
	dead := newJob(t, tries(1))
	f.record(t, waiting, again, later)
	f.claim(running, 1, "w")
	a := f.claim(ended, 1, "w")
	f.finish(a, resultOf(a, job.StatusOK))
	f.retry(f.claim(dead, 1, "w"), 0)
	f.exec(`UPDATE jobs SET generation = 2 WHERE id = $1`, [16]byte(again.ID))
	var all []job.Queued
	expected := []bool{}
	for _, c := range []struct {
		j    *job.Job
		void bool
	}{
		{dropped, true}, {stray, true}, {waiting, false}, {running, false}, {ended, true}, {again, true}, {later, true}, {dead, true},
		{newJob(t), false},
		{jobAt(t, time.Now().AddDate(0, 0, -1)), false},
	} {
		all, expected = append(all, queued(t, c.j)), append(expected, c.void)
	}
	got, err := f.Void(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "void", got, expected)
	all[5].Generation = 2
	got, err = f.Void(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "void in its newest generation", got[5], false)
}

// TestNoAttemptOutlivesItsJob: whatever takes a job from its attempt ends the
// attempt in the same statement, so that none is left to be swept.
func TestNoAttemptOutlivesItsJob(t *testing.T) {
	t.Parallel()
	f := open(t)
	for name, take := range map[string]func(a *job.Attempt){
		"finish":  func(a *job.Attempt) { f.finish(a, resultOf(a, job.StatusOK)) },
		"retry":   func(a *job.Attempt) { f.retry(a, 0) },
		"release": func(a *job.Attempt) { wantError(t, "release", f.Release(t.Context(), a), nil) },
		"lost":    func(a *job.Attempt) { f.loseLease(a.Job.ID); f.takeDue(t) },
		"takeover": func(a *job.Attempt) {
			f.loseLease(a.Job.ID)
			b := f.claim(a.Job, 1, "other")
			f.finish(b, resultOf(b, job.StatusOK))
		},
		"cancelled": func(a *job.Attempt) {
			if _, err := f.Cancel(t.Context(), "acme", a.Job.ID); err != nil {
				t.Fatal(err)
			}
			f.finish(a, resultOf(a, job.StatusCancelled))
		},
	} {
		for _, n := range []int{2, 3} {
			j := newJob(t, tries(n))
			take(f.claim(j, 1, "w"))
			left := value[int](f, `SELECT count(*) FROM attempts WHERE job = $1 AND outcome = 'running'`, [16]byte(j.ID))
			want(t, name+": attempts still running", left, 0)
		}
	}
}
