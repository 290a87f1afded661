package store_test

import (
	"testing"
	"time"

	"airlock/job"
	"airlock/store"
)

// early is a settled that no job is too young for.
const early = -time.Minute

func TestWaitingAndRebuild(t *testing.T) {
	t.Parallel()
	f := open(t)
	docker := func(j *job.Job) { j.Requires.Backends = []string{"docker"} }
	later := func(j *job.Job) { j.NotBefore = time.Now().Add(time.Hour) }
	jobs := []*job.Job{newJob(t), newJob(t), newJob(t, docker), newJob(t, later), newJob(t)}
	f.record(t, jobs...)
	f.claim(jobs[4], 1, "w")
	waiting := func(settled time.Duration) map[string]int {
		counts, err := f.Waiting(t.Context(), settled)
		if err != nil {
			t.Fatal(err)
		}
		return counts
	}
	want(t, "waiting", waiting(early), map[string]int{"any": 2, "docker": 1})
	want(t, "waiting for a minute", waiting(time.Minute), map[string]int{})

	rebuild := func(lane string, limit int) int {
		n, err := f.RebuildLane(t.Context(), lane, early, limit)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	want(t, "rebuilt of one", rebuild("any", 1), 1)
	want(t, "rebuilt of the rest", rebuild("any", 10), 1)
	want(t, "rebuilt twice", rebuild("any", 10), 0)
	want(t, "waiting then", waiting(early), map[string]int{"docker": 1})
	due := f.takeDue(t)
	want(t, "due", len(due), 2)
	for _, d := range due {
		want(t, "generation", d.Generation, 2)
		if err := f.Republished(t.Context(), d.Job.ID, d.Generation); err != nil {
			t.Fatal(err)
		}
	}
	want(t, "waiting in the end", waiting(early), map[string]int{"any": 2, "docker": 1})
}

func TestOldestWaiting(t *testing.T) {
	t.Parallel()
	f := open(t)
	oldest := func() map[string]time.Time {
		since, err := f.OldestWaiting(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return since
	}
	want(t, "lanes of nothing", len(oldest()), 0)
	docker := func(j *job.Job) { j.Requires.Backends = []string{"docker"} }
	first, second, other, taken, later := newJob(t), newJob(t), newJob(t, docker), newJob(t), newJob(t, func(j *job.Job) {
		j.NotBefore, j.Requires.Backends = time.Now().Add(time.Hour), []string{"bubblewrap"}
	})
	f.record(t, taken, first, second, other, later)
	f.claim(taken, 1, "w")
	f.exec(`UPDATE jobs SET queued_at = '2026-01-02T03:04:05Z' WHERE id = '` + first.ID.String() + `'`)
	f.exec(`UPDATE jobs SET queued_at = '2026-01-02T05:04:05Z' WHERE id = '` + other.ID.String() + `'`)
	got := oldest()
	want(t, "lanes", len(got), 2)
	want(t, "any", got["any"].UTC(), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	want(t, "docker", got["docker"].UTC(), time.Date(2026, 1, 2, 5, 4, 5, 0, time.UTC))
}

// TestBuryUnplaceable: also twice, with a requeue between.
func TestBuryUnplaceable(t *testing.T) {
	t.Parallel()
	f := open(t)
	j, other, delayed := newJob(t), newJob(t, func(j *job.Job) { j.Requires.Backends = []string{"docker"} }), newJob(t)
	f.record(t, j, other, delayed)
	f.exec(`UPDATE jobs SET queued_at = now() - interval '2 hours'`)
	f.exec(`UPDATE jobs SET not_before = now() - interval '1 minute' WHERE id = $1`, [16]byte(delayed.ID))
	bury := func(waited time.Duration) int {
		n, err := f.BuryUnplaceable(t.Context(), "any", waited, 10)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	want(t, "buried before its time", bury(3*time.Hour), 0)
	want(t, "buried", bury(time.Hour), 1)
	want(t, "buried twice", bury(time.Hour), 0)
	want(t, "other lane", f.state(other.ID), job.StateQueued)
	want(t, "due a minute ago", f.state(delayed.ID), job.StateQueued)
	unannounced, err := f.Unannounced(t.Context(), time.Hour, 10)
	if err != nil || len(unannounced) != 1 {
		t.Fatalf("unannounced: got %d, %v, want 1", len(unannounced), err)
	}
	want(t, "status", unannounced[0].Status, job.StatusInfraError)
	want(t, "error", unannounced[0].Error.Type, "unplaceable")
	want(t, "dead", len(only(f.Dead(t.Context(), "acme", 10))), 1)

	again, err := f.Requeue(t.Context(), "acme", j.ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Republished(t.Context(), j.ID, again.Generation); err != nil {
		t.Fatal(err)
	}
	want(t, "buried right after a requeue", bury(time.Hour), 0)
	f.exec(`UPDATE jobs SET not_before = now() - interval '2 hours' WHERE id = $1`, [16]byte(j.ID))
	want(t, "buried again", bury(time.Hour), 1)
	rec, err := f.Job(t.Context(), "acme", j.ID)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "outcomes", outcomes(rec), []string{"failed", "failed"})
}

func only[T any](v T, _ error) T { return v }

func TestSweep(t *testing.T) {
	t.Parallel()
	f := open(t)
	for _, id := range []string{"old", "new"} {
		if err := f.WorkerSeen(t.Context(), store.WorkerRecord{ID: id, Host: "h", Started: time.Now()}); err != nil {
			t.Fatal(err)
		}
	}
	f.exec(`UPDATE workers SET seen_at = now() - interval '31 days' WHERE id = 'old'`)
	a := f.claim(newJob(t), 1, "w")
	f.finish(a, resultOf(a, job.StatusOK))
	f.exec(`UPDATE announcements SET ended_at = now() - interval '2 hours'`)
	f.exec(`INSERT INTO announcements (job, ended_at) VALUES ($1, now() - interval '2 hours'), ($2, now())`, [16]byte(job.NewID()), [16]byte(job.NewID()))
	n, err := f.Sweep(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want(t, "swept", n, 2)
	want(t, "workers", value[string](f, `SELECT string_agg(id, ' ') FROM workers`), "new")
	want(t, "announcements", value[int](f, `SELECT count(*) FROM announcements`), 2)
}
