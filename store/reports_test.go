package store_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"airlock/job"
)

// The tests of this file act out what users of job queues on SQL reported.
// Their numbers are those of integration/reports_test.go.

// F35: whoever takes jobs from vanished workers does not take one that ended in
// that moment, and a worker that ends its job late does not end one that was
// taken.
func TestF35LostAndFinishedAtOnce(t *testing.T) {
	t.Parallel()
	f := open(t)
	const jobs = 60
	attempts := make([]*job.Attempt, jobs)
	for i := range attempts {
		attempts[i] = f.claim(newJob(t), 1, "slow")
		f.loseLease(attempts[i].Job.ID)
	}
	finished := make([]error, jobs)
	var all sync.WaitGroup
	for i, a := range attempts {
		all.Go(func() { finished[i] = f.Finish(t.Context(), a, resultOf(a, job.StatusOK), 0) })
	}
	taken := map[job.ID]bool{}
	for range 20 {
		due, err := f.TakeDue(t.Context(), 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range due {
			taken[r.Job.ID] = true
		}
	}
	all.Wait()
	for i, a := range attempts {
		fenced := errors.Is(finished[i], job.ErrFenced)
		if finished[i] != nil && !fenced || fenced != taken[a.Job.ID] {
			t.Errorf("job %d: taken %t, and its end was %v", i, taken[a.Job.ID], finished[i])
		}
		want(t, "state", f.state(a.Job.ID), map[bool]job.State{true: job.StateQueued, false: job.StateFinished}[fenced])
	}
}

// F39: a job whose worker vanished is found behind any number of jobs that are
// well, however few are looked at in one go.
func TestF39ADeadWorkerBehindManyLiveOnes(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.exec(`
		INSERT INTO jobs (id, tenant, spec, content_digest, lane, priority, max_attempts, queued_at, state, generation, attempt, worker, lease_until)
		SELECT ('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 'acme', '{}', sha256('x'), 'any', 'normal', 3, now(), 'running', 1, 1, 'w',
		    now() + interval '1 hour'
		FROM generate_series(1, 1000) n`)
	dead := f.claim(newJob(t), 1, "gone")
	f.loseLease(dead.Job.ID)
	due, err := f.TakeDue(t.Context(), 1)
	if err != nil || len(due) != 1 || due[0].Job.ID != dead.Job.ID {
		t.Errorf("got %v, %v, want the one job whose worker is gone", due, err)
	}
}

// F41: no job can be running without a lease that ends.
func TestF41RunningWithoutALease(t *testing.T) {
	t.Parallel()
	f := open(t)
	a := f.claim(newJob(t), 1, "w")
	_, err := f.sql.Exec(t.Context(), `UPDATE jobs SET lease_until = NULL WHERE id = $1`, [16]byte(a.Job.ID))
	if err == nil {
		t.Error("the database took a running job without a lease")
	}
}

// A call that was given up may be told of after its attempt has lost the job,
// but leaves no gap in the chain: not behind an end that the fence refused.
func TestALateEndLeavesNoGap(t *testing.T) {
	t.Parallel()
	f := open(t)
	j := newJob(t)
	stale := f.claim(j, 1, "stopped")
	linked := func(seq, link int) job.Call {
		c := callOf(stale, seq)
		c.StartLink, c.StartHash = link, []byte("start")
		return c
	}
	first, second := linked(1, 1), linked(2, 2)
	f.started(stale, first)
	f.started(stale, second)
	f.loseLease(j.ID)
	if _, err := f.TakeDue(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	end := func(c job.Call, state job.CallState, link int) error {
		c = endOf(c, state)
		c.EndLink, c.EndHash = link, []byte("end")
		return f.CallEnded(t.Context(), stale, c)
	}
	wantError(t, "an answer, link 3", end(first, job.CallOK, 3), job.ErrFenced)
	wantError(t, "a cancelled call behind it, link 4", end(second, job.CallCancelled, 4), job.ErrFenced)
	wantError(t, "a cancelled call in its place, link 3", end(second, job.CallCancelled, 3), nil)
	wantError(t, "the next, link 4", end(first, job.CallLate, 4), nil)
}

// F52: statements that are called off in the middle, in a storm of them, cost
// no connection, and leave nothing half done: each job is claimed once at most,
// and by whom its row says. Poolers in front of Postgres are not acted out:
// only one that pools sessions will do, which DEPLOY.md says.
func TestF52ClaimsCalledOffInAStorm(t *testing.T) {
	t.Parallel()
	f := open(t)
	const jobs, tries = 40, 8
	var mu sync.Mutex
	claimed := map[job.ID]map[int]int{} // how often each attempt was given out
	var storm sync.WaitGroup
	for n := range jobs {
		j := newJob(t)
		for try := range tries {
			storm.Go(func() {
				ctx, cancel := context.WithCancel(t.Context())
				calledOff := time.AfterFunc(time.Duration(n*tries+try)*50*time.Microsecond, cancel)
				defer calledOff.Stop()
				worker := fmt.Sprintf("w%d", try)
				claim, err := f.Claim(ctx, job.ClaimRequest{Job: j, Generation: 1, Worker: worker, Backend: "fake", Queued: time.Now()})
				cancel()
				if err != nil || claim.Verdict != job.Claimed {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				if claimed[j.ID] == nil {
					claimed[j.ID] = map[int]int{}
				}
				claimed[j.ID][claim.Attempt]++
			})
		}
	}
	storm.Wait()
	for id, attempts := range claimed {
		if len(attempts) != 1 || attempts[1] != 1 {
			t.Errorf("job %s was given out as attempts %v, want its first, once", id, attempts)
		}
	}
	// As many at once as there are connections: each is whole again.
	var after sync.WaitGroup
	for range 40 {
		j := newJob(t)
		after.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if claim, err := f.Claim(ctx, job.ClaimRequest{Job: j, Generation: 1, Worker: "w", Backend: "fake", Queued: time.Now()}); err != nil || claim.Verdict != job.Claimed {
				t.Errorf("a claim after the storm: got %v, %v", claim.Verdict, err)
			}
		})
	}
	after.Wait()
}
