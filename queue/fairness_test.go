package queue_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"airlock/job"
	"airlock/queue"
	"airlock/queue/natstest"
)

// flood puts n jobs of a tenant into the queue.
func flood(t testing.TB, q *queue.Queue, tenant string, n int) {
	t.Helper()
	var publishers sync.WaitGroup
	for range 20 {
		publishers.Go(func() {
			for range n / 20 {
				submit(t, q, newJob(t, func(j *job.Job) { j.Tenant = tenant }))
			}
		})
	}
	publishers.Wait()
}

// TestANoisyTenantDelaysNobody: behind thousands of one tenant's jobs the job
// of another is among the next few that start. It counts jobs and no time.
func TestANoisyTenantDelaysNobody(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{})
	const noisy, slots = 5_000, 2
	flood(t, q, "noisy", noisy)
	var started, before atomic.Int64
	var quiet sync.Map // the quiet tenants' jobs: how many had started when they were submitted
	w := work(t, q, slots, func(ctx context.Context, d job.Delivery) {
		n := started.Add(1)
		if d.Job.Tenant == "noisy" {
			<-time.After(time.Millisecond)
		} else {
			for at, ok := quiet.Load(d.Job.ID); ; at, ok = quiet.Load(d.Job.ID) {
				if ok {
					before.Store(max(before.Load(), n-at.(int64)))
					break
				}
			}
		}
		must(t, d.Ack(ctx))
	}, offer("bubblewrap"))
	w.wait(100)
	const tenants = 10
	for i := range tenants {
		j := newJob(t, func(j *job.Job) { j.Tenant = fmt.Sprintf("quiet%d", i) })
		submit(t, q, j)
		quiet.Store(j.ID, started.Load())
		waitFor(t, "a quiet tenant's job", func() bool {
			for _, d := range w.deliveries() {
				if d.Job.ID == j.ID {
					return true
				}
			}
			return false
		})
	}
	// A bell and a new consumer take a few of the noisy tenant's jobs.
	if got := before.Load(); got > 50 {
		t.Errorf("got %d jobs between a quiet tenant's submission and its start, want a few", got)
	}
	t.Logf("at most %d jobs started in between", before.Load())
}

// TestTenantsTakeTurns: one after the other, however many jobs and lanes each
// has.
func TestTenantsTakeTurns(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{})
	for range 10 {
		for _, backends := range [][]string{nil, {"bubblewrap"}, {"bubblewrap", "docker"}} {
			submit(t, q, newJob(t, func(j *job.Job) { j.Tenant, j.Requires.Backends = "many", backends }))
		}
	}
	for range 10 {
		submit(t, q, newJob(t, func(j *job.Job) { j.Tenant = "few" }))
		submit(t, q, newJob(t, func(j *job.Job) { j.Tenant = "few2" }))
	}
	w := work(t, q, 1, nil, offer("bubblewrap"))
	got := map[string]int{}
	for _, d := range w.wait(50)[:30] {
		got[d.Job.Tenant]++
	}
	for _, tenant := range []string{"many", "few", "few2"} {
		if got[tenant] < 9 || got[tenant] > 11 {
			t.Errorf("got %v among the first 30, want 10 of each", got)
			break
		}
	}
	waitEmpty(t, q)
}

// TestTenantsThatDifferInCaseOnly have consumers of their own on every file
// system.
func TestTenantsThatDifferInCaseOnly(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{})
	w := work(t, q, 1, nil, offer("bubblewrap"))
	for _, tenant := range []string{"acme", "Acme", "ACME"} {
		submit(t, q, newJob(t, func(j *job.Job) { j.Tenant = tenant }))
	}
	w.wait(3)
	waitEmpty(t, q)
	js, err := jetstream.New(srv.Connect())
	must(t, err)
	stream, err := js.Stream(testContext(t), "JOBS")
	must(t, err)
	if got := stream.CachedInfo().State.Consumers; got != 3 {
		t.Errorf("got %d consumers, want 3", got)
	}
}

// TestTakesOverFromOneConsumerForAll: an earlier version had one consumer for
// all tenants of a lane, beside which there can be no other.
func TestTakesOverFromOneConsumerForAll(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{})
	js, err := jetstream.New(srv.Connect())
	must(t, err)
	_, err = js.CreateConsumer(testContext(t), "JOBS", jetstream.ConsumerConfig{
		Durable: "any-normal", FilterSubject: "jobs.any.normal.*", AckPolicy: jetstream.AckExplicitPolicy,
	})
	must(t, err)
	submit(t, q, newJob(t, nil))
	w := work(t, q, 1, nil, offer("bubblewrap"))
	w.wait(1)
	waitEmpty(t, q)
}
