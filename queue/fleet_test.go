package queue_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"airlock/job"
	"airlock/queue"
	"airlock/queue/natstest"
)

func TestWorkersComeAndGo(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{WorkerTTL: 10 * time.Second})
	ctx := testContext(t)
	w1, w2 := presence("w1", offer("docker")), presence("w2", offer("bubblewrap"))
	w2.Unavailable, w2.Labels = map[string]string{"wasm": "why"}, map[string]string{"zone": "x"}
	w1.Started, w2.Started = w1.Started.UTC().Round(0), w2.Started.UTC().Round(0)
	must(t, q.Advertise(ctx, w2))
	must(t, q.Advertise(ctx, w1))
	workers := func() []queue.Presence {
		got, err := q.Workers(ctx)
		must(t, err)
		return got
	}
	if diff := cmp.Diff([]queue.Presence{w1, w2}, workers()); diff != "" {
		t.Errorf("workers (-want +got):\n%s", diff)
	}
	must(t, q.Withdraw(ctx, "w1"))
	must(t, q.Withdraw(ctx, "w1"))
	if diff := cmp.Diff([]queue.Presence{w2}, workers()); diff != "" {
		t.Errorf("workers after one withdrew (-want +got):\n%s", diff)
	}
	waitFor(t, "expiry of a silent worker", func() bool { return len(workers()) == 0 })
	waitFor(t, "refusal, now that nobody is there", func() bool { return q.Placeable(ctx, newJob(t, nil)) != nil })

	for _, id := range []string{"", "a.b", "*", ">"} {
		if q.Advertise(ctx, presence(id)) == nil || q.Withdraw(ctx, id) == nil {
			t.Errorf("got no error for worker id %q", id)
		}
	}
}

func TestLanesTellDepthAndWorkers(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{})
	must(t, q.Advertise(testContext(t), presence("w1", offer("bubblewrap"))))
	must(t, q.Advertise(testContext(t), presence("w2", offer("docker"))))
	for _, p := range []job.Priority{job.PriorityHigh, job.PriorityLow, job.PriorityLow} {
		submit(t, q, newJob(t, func(j *job.Job) { j.Priority = p }))
	}
	submit(t, q, newJob(t, func(j *job.Job) { j.Requires.Backends = []string{"docker"} }))
	release := make(chan struct{})
	defer close(release)
	w := work(t, q, 1, func(_ context.Context, d job.Delivery) { <-release }, offer("bubblewrap"))
	w.wait(1)
	got, err := q.Lanes(testContext(t))
	must(t, err)
	for i := range got {
		got[i].Requirement = job.Requirement{}
	}
	want := []queue.Lane{
		{Name: "any", Workers: []string{"w1", "w2"}, Depth: map[job.Priority]queue.Depth{
			job.PriorityHigh: {Running: 1}, job.PriorityNormal: {}, job.PriorityLow: {Waiting: 2},
		}},
		{Name: "docker", Workers: []string{"w2"}, Depth: map[job.Priority]queue.Depth{
			job.PriorityHigh: {}, job.PriorityNormal: {Waiting: 1}, job.PriorityLow: {},
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lanes (-want +got):\n%s", diff)
	}
}

// A requirement under another lane's name would lead workers to jobs that they
// cannot run.
func TestForeignLanesAreIgnored(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{})
	nc := srv.Connect()
	publishRaw(t, nc, "$KV.LANES.docker", `{"isolation":"none","limits":[]}`, nil)
	publishRaw(t, nc, "$KV.LANES.x", `no json`, nil)
	submit(t, q, newJob(t, nil))
	waitFor(t, "lane any", func() bool {
		lanes, err := q.Lanes(testContext(t))
		must(t, err)
		return len(lanes) == 1 && lanes[0].Name == "any"
	})
}

func TestCancel(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{})
	submitter, other := attach(t, srv), attachAs(t, srv, "a")
	ctx := testContext(t)

	type told struct {
		Tenant string
		Target queue.CancelTarget
	}
	var mu sync.Mutex
	seen := map[told]bool{}
	watch := background(t, func(ctx context.Context) error {
		return q.Cancels(ctx, func(tenant string, target queue.CancelTarget) {
			mu.Lock()
			defer mu.Unlock()
			seen[told{tenant, target}] = true
		})
	})
	defer watch()

	inBatch := func(tenant string) *job.Job {
		return newJob(t, func(j *job.Job) { j.Tenant, j.Batch = tenant, "b" })
	}
	single, before, stranger, untouched := newJob(t, nil), inBatch("a"), inBatch("z"), newJob(t, nil)
	target := queue.CancelTarget{Job: single.ID}
	must(t, submitter.Cancel(ctx, "default", target))
	must(t, submitter.Cancel(ctx, "default", target))
	must(t, other.Cancel(ctx, "a", queue.CancelTarget{Batch: "b"}))
	cancelled := time.Now()
	waitFor(t, "cancellations", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return seen[told{"default", target}] && seen[told{"a", queue.CancelTarget{Batch: "b"}}]
	})
	waitFor(t, "next millisecond", func() bool { return time.Now().UnixMilli() > cancelled.UnixMilli() })
	after := inBatch("a")
	for _, c := range []struct {
		name   string
		tenant string
		job    *job.Job
		want   bool
	}{
		{"job", "default", single, true},
		{"job of another tenant", "a", single, false},
		{"job in batch", "a", before, true},
		{"job made after its batch was cancelled", "a", after, false},
		{"job in another tenant's batch", "z", stranger, false},
		{"job nobody cancelled", "default", untouched, false},
	} {
		if got := q.Cancelled(c.tenant, c.job); got != c.want {
			t.Errorf("%s: got cancelled %v, want %v", c.name, got, c.want)
		}
	}

	for _, c := range []struct {
		tenant string
		target queue.CancelTarget
	}{
		{"*", target}, {"a.b", target}, {"a", queue.CancelTarget{}}, {"a", queue.CancelTarget{Batch: ">"}},
		{"a", queue.CancelTarget{Job: single.ID, Batch: "b"}},
	} {
		if err := submitter.Cancel(ctx, c.tenant, c.target); err == nil {
			t.Errorf("got no error for cancelling %+v of %q", c.target, c.tenant)
		}
	}
}
