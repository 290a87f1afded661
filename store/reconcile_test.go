package store_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"airlock/job"
	"airlock/store"
)

func TestRecordQueued(t *testing.T) {
	t.Parallel()
	f := open(t)
	var rows []job.Queued
	for i := range 20 {
		rows = append(rows, queued(t, newJob(t, withKey(fmt.Sprint("k", i)))))
	}
	rows[7].Spec = nil                                       // refused by a constraint
	rows = append(rows, queued(t, newJob(t, withKey("k3")))) // another job's key
	rows[9].Job.Labels = map[string]string{"a": "x\x00"}     // no jsonb
	for range 2 {
		if err := f.RecordQueued(t.Context(), rows); err != nil {
			t.Fatalf("record queued: %v", err)
		}
	}
	want(t, "jobs", value[int](f, `SELECT count(*) FROM jobs WHERE state = 'queued'`), 19)
	if _, err := f.Job(t.Context(), "acme", rows[7].Job.ID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("refused row: got %v, want %v", err, store.ErrNotFound)
	}
	for _, i := range []int{0, 6, 8, 9, 19} {
		if _, err := f.Job(t.Context(), "acme", rows[i].Job.ID); err != nil {
			t.Errorf("row %d: %v", i, err)
		}
	}
	// A row that is there is left as it is.
	a := f.claim(rows[0].Job, 1, "w")
	if err := f.RecordQueued(t.Context(), rows[:1]); err != nil {
		t.Fatal(err)
	}
	want(t, "state", f.state(a.Job.ID), job.StateRunning)
}

func TestTakeDueFindsLostWorkers(t *testing.T) {
	t.Parallel()
	f := open(t)
	for _, test := range []struct {
		name  string
		tries int
		want  []string // state after each lost lease, and the error type at the end
	}{
		{"poison", 5, []string{"queued", "queued", "dead", "suspected_poison"}},
		{"last try", 2, []string{"queued", "dead", "worker_lost"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			j := newJob(t, tries(test.tries))
			var got []string
			for generation := 1; f.stateOr(j.ID) != "dead"; generation++ {
				a := f.claim(j, generation, "w")
				want(t, "due before its time", len(f.takeDue(t)), 0)
				f.loseLease(j.ID)
				due := f.takeDue(t)
				got = append(got, string(f.state(j.ID)))
				if f.state(j.ID) == job.StateQueued {
					want(t, "generation", due[0].Generation, generation+1)
					want(t, "reason", due[0].Reason, "lease_expired")
				} else {
					want(t, "reason of the burial", due[0].Reason, test.want[len(test.want)-1])
				}
				want(t, "buried", due[0].Buried, f.state(j.ID) == job.StateDead)
				wantError(t, "finish by the lost worker", f.Finish(t.Context(), a, resultOf(a, job.StatusOK), 0), job.ErrFenced)
			}
			r, err := f.Result(t.Context(), "acme", j.ID)
			if err != nil {
				t.Fatal(err)
			}
			want(t, "states and error", append(got, r.Error.Type), test.want)
			want(t, "status", r.Status, job.StatusInfraError)
		})
	}
	unannounced, err := f.Unannounced(t.Context(), 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "unannounced", len(unannounced), 2)
}

func (f *fixture) stateOr(id job.ID) string {
	f.t.Helper()
	return value[string](f, `SELECT coalesce((SELECT state FROM jobs WHERE id = $1), '')`, [16]byte(id))
}

func TestTakeDueAgainUntilConfirmed(t *testing.T) {
	t.Parallel()
	f := open(t)
	j := newJob(t, func(j *job.Job) { j.NotBefore = time.Now().Add(time.Hour) })
	f.record(t, j)
	want(t, "due before its time", len(f.takeDue(t)), 0)
	f.exec(`UPDATE jobs SET not_before = now()`)
	due := f.takeDue(t)
	want(t, "due", len(due), 1)
	want(t, "reason", due[0].Reason, "due")
	want(t, "due again at once", len(f.takeDue(t)), 0)

	// The publisher died: the row is found again, with the same generation.
	f.exec(`UPDATE jobs SET publish_due = now() - interval '1 second'`)
	again := f.takeDue(t)
	want(t, "due again", len(again), 1)
	want(t, "generation", again[0].Generation, due[0].Generation)
	want(t, "reason", again[0].Reason, "unconfirmed")

	for range 2 {
		if err := f.Republished(t.Context(), j.ID, due[0].Generation); err != nil {
			t.Fatal(err)
		}
	}
	f.exec(`UPDATE jobs SET publish_due = now() - interval '1 second' WHERE publish_due IS NOT NULL`)
	want(t, "due after it was confirmed", len(f.takeDue(t)), 0)

	n, err := f.RebuildLane(t.Context(), j.Requires.Lane(), -time.Minute, 10)
	if err != nil || n != 1 {
		t.Fatalf("rebuild: got %d, %v, want 1", n, err)
	}
	want(t, "due after a rebuild", f.takeDue(t)[0].Generation, due[0].Generation+1)
	// A claim proves that the message is there.
	f.claim(j, due[0].Generation+1, "w")
	want(t, "unconfirmed after a claim", value[int](f, `SELECT count(*) FROM jobs WHERE publish_due IS NOT NULL`), 0)
}

func TestTakeDueByTwoGivesEachJobOnce(t *testing.T) {
	t.Parallel()
	f := open(t)
	for range 50 {
		f.retry(f.claim(newJob(t), 1, "w"), 0)
	}
	other := openOn(t, f.url)
	results := make(chan []job.Republish)
	for _, on := range []*fixture{f, other} {
		go func() {
			due, err := on.TakeDue(t.Context(), 100)
			if err != nil {
				t.Error(err)
			}
			results <- due
		}()
	}
	seen := map[job.ID]int{}
	for _, r := range append(<-results, <-results...) {
		seen[r.Job.ID]++
	}
	for _, r := range f.takeDue(t) { // what one skipped because the other had it locked
		seen[r.Job.ID]++
	}
	want(t, "jobs", len(seen), 50)
	for id, n := range seen {
		if n != 1 {
			t.Errorf("job %s: got %d times, want once", id, n)
		}
	}
}

func TestExpireOverdue(t *testing.T) {
	t.Parallel()
	f := open(t)
	soon := func(j *job.Job) { j.Deadline = time.Now().Add(time.Hour) }
	waiting, retrying, running, patient := newJob(t, soon), newJob(t, soon), newJob(t, soon), newJob(t, soon)
	f.record(t, waiting, patient)
	f.retry(f.claim(retrying, 1, "w"), time.Hour)
	f.claim(running, 1, "w")
	f.exec(`UPDATE jobs SET deadline = now() - interval '1 second' WHERE id <> $1`, [16]byte(patient.ID))
	for _, n := range []int{2, 0} {
		got, err := f.ExpireOverdue(t.Context(), 10)
		if err != nil {
			t.Fatal(err)
		}
		want(t, "expired", got, n)
	}
	for _, j := range []*job.Job{waiting, retrying} {
		r, err := f.Result(t.Context(), "acme", j.ID)
		if err != nil {
			t.Fatal(err)
		}
		want(t, "status", r.Status, job.StatusExpired)
		want(t, "attempt", r.Attempt, 0)
		want(t, "verdict", f.ask(j, 1, "w").Verdict.String(), job.Ended.String())
	}
	want(t, "running", f.state(running.ID), job.StateRunning)
	want(t, "patient", f.state(patient.ID), job.StateQueued)
}

func TestLead(t *testing.T) {
	t.Parallel()
	f := open(t)
	other := openOn(t, f.url)
	first, err := f.Lead(t.Context())
	if err != nil || first == nil {
		t.Fatalf("lead: got %v, %v, want the leadership", first, err)
	}
	second, err := other.Lead(t.Context())
	if err != nil || second != nil {
		t.Fatalf("second lead: got %v, %v, want none", second, err)
	}
	if err := first.Check(t.Context()); err != nil {
		t.Errorf("check: %v", err)
	}
	f.exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'airlock reconciler' AND datname = current_database()`)
	if err := first.Check(t.Context()); !errors.Is(err, store.ErrUnreachable) {
		t.Errorf("check after the connection died: got %v, want %v", err, store.ErrUnreachable)
	}
	first.Release()
	eventually(t, "the other leads", func() bool {
		second, err = other.Lead(t.Context())
		return err == nil && second != nil
	})
	second.Release()
	second.Release()
}

// TestAFrozenLeaderIsFollowed: it has its connection, and says nothing.
func TestAFrozenLeaderIsFollowed(t *testing.T) {
	t.Parallel()
	f := open(t)
	frozen, err := f.Lead(t.Context())
	if err != nil || frozen == nil {
		t.Fatalf("lead: got %v, %v, want the leadership", frozen, err)
	}
	defer frozen.Release()
	other := openOn(t, f.url)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for deadline := time.Now().Add(4 * store.MaxCheck); ; <-tick.C {
		next, err := other.Lead(t.Context())
		if err == nil && next != nil {
			next.Release()
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("nobody leads %s after the leader froze: %v", 4*store.MaxCheck, err)
		}
	}
	if err := frozen.Check(t.Context()); !errors.Is(err, store.ErrUnreachable) {
		t.Errorf("check of the frozen leader: got %v, want %v", err, store.ErrUnreachable)
	}
}

func TestEnsurePartitions(t *testing.T) {
	t.Parallel()
	f := open(t)
	now := time.Date(2031, 12, 31, 23, 59, 0, 0, time.FixedZone("", 3600))
	for range 2 { // it is done at every start
		if err := f.EnsurePartitions(t.Context(), now); err != nil {
			t.Fatal(err)
		}
	}
	want(t, "partitions", value[int](f, `SELECT count(*) FROM pg_class WHERE relname ~ '_(2031_12|2032_01)$' AND relkind = 'r'`), 8)
	j := newJob(t)
	f.record(t, j)
	want(t, "partition", value[string](f, `SELECT tableoid::regclass::text FROM jobs`), "jobs_"+j.ID.Time().Format("2006_01"))
	// A month with rows in the default partition stays there.
	old := newJob(t)
	copy(old.ID[:], []byte{0x01, 0x80, 0, 0, 0, 0})
	f.record(t, old)
	want(t, "partition of an old job", value[string](f, `SELECT tableoid::regclass::text FROM jobs WHERE id = $1`, [16]byte(old.ID)), "jobs_default")
	if err := f.EnsurePartitions(t.Context(), old.ID.Time()); err != nil {
		t.Errorf("month with rows in the default partition: %v", err)
	}
	f.claim(old, 1, "w")
}

func TestCancel(t *testing.T) {
	t.Parallel()
	f := open(t)
	waiting, running, done := newJob(t), newJob(t), newJob(t)
	f.record(t, waiting)
	a := f.claim(running, 1, "w")
	b := f.claim(done, 1, "w")
	f.finish(b, resultOf(b, job.StatusOK))
	for _, test := range []struct {
		name string
		id   job.ID
		want job.State
	}{
		{"waiting", waiting.ID, job.StateFinished},
		{"running", running.ID, job.StateRunning},
		{"finished", done.ID, job.StateFinished},
	} {
		for range 2 {
			got, err := f.Cancel(t.Context(), "acme", test.id)
			if err != nil || got != test.want {
				t.Errorf("cancel of a %s job: got %v, %v, want %v", test.name, got, err, test.want)
			}
		}
	}
	for _, id := range []job.ID{waiting.ID, job.NewID()} {
		if _, err := f.Cancel(t.Context(), "other", id); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("cancel for another tenant or of no job: got %v, want %v", err, store.ErrNotFound)
		}
	}
	r, err := f.Result(t.Context(), "acme", waiting.ID)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "status", r.Status, job.StatusCancelled)
	r, err = f.Result(t.Context(), "acme", done.ID)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "status of the finished job", r.Status, job.StatusOK)
	// The wish outlives the worker.
	if err := f.Release(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	want(t, "cancel requested at the next claim", f.ask(running, 1, "x").CancelRequested, true)
}

func TestCancelBatch(t *testing.T) {
	t.Parallel()
	f := open(t)
	var jobs []*job.Job
	for range 10 {
		jobs = append(jobs, newJob(t, inBatch("b")))
	}
	f.record(t, jobs...)
	f.record(t, newJob(t, inBatch("other")))
	f.claim(jobs[0], 1, "w")
	a := f.claim(jobs[1], 1, "w")
	f.finish(a, resultOf(a, job.StatusOK))
	for range 2 {
		got, err := f.CancelBatch(t.Context(), "acme", "b")
		if err != nil {
			t.Fatal(err)
		}
		want(t, "states", got, map[job.State]int{job.StateRunning: 1, job.StateFinished: 9})
	}
	if _, err := f.CancelBatch(t.Context(), "acme", "none"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("cancel of no batch: got %v, want %v", err, store.ErrNotFound)
	}
	counts, err := f.Batch(t.Context(), "acme", "b")
	if err != nil {
		t.Fatal(err)
	}
	want(t, "counts", counts, job.Summary{
		Batch: "b", Total: 10, States: map[job.State]int{job.StateRunning: 1, job.StateFinished: 9},
		Statuses: map[job.Status]int{job.StatusOK: 1, job.StatusCancelled: 8},
	})
}
