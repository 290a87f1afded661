package queue_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"airlock/job"
	"airlock/queue"
	"airlock/queue/natstest"
)

// TestMendsAStuckConsumer: one that stands behind a job which it never gave
// out, as it is left by a change of its filter.
func TestMendsAStuckConsumer(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{})
	js, err := jetstream.New(srv.Connect())
	must(t, err)
	submit(t, q, newJob(t, nil)) // which it will not give out
	submit(t, q, newJob(t, func(j *job.Job) { j.Tenant = "other" }))
	consumer, err := js.CreateConsumer(testContext(t), "JOBS", jetstream.ConsumerConfig{
		Durable: "any=normal=default", FilterSubject: "jobs.any.normal.other", AckPolicy: jetstream.AckExplicitPolicy,
		AckWait: job.AckWait, MaxAckPending: 50_000,
	})
	must(t, err)
	msg, err := consumer.Next()
	must(t, err)
	must(t, msg.DoubleAck(testContext(t)))

	w := work(t, q, 1, nil, offer("bubblewrap"))
	waitFor(t, "the worker's consumer", func() bool {
		info, err := consumer.Info(testContext(t))
		return err == nil && info.Config.FilterSubject == "jobs.any.normal.default"
	})
	for range 2 {
		if got := len(w.deliveries()); got != 0 {
			t.Fatalf("got %d deliveries before it was mended, want none: the consumer is not stuck", got)
		}
		<-time.After(tickAtMost)
		got, err := q.Mend(testContext(t))
		must(t, err)
		if len(got) > 0 {
			if diff := cmp.Diff([]string{"any=normal=default"}, got); diff != "" {
				t.Errorf("recreated (-want +got):\n%s", diff)
			}
		}
	}
	w.wait(1)
	waitEmpty(t, q)
}

// tickAtMost is longer than a worker leaves a lane unlooked at.
const tickAtMost = 1200 * time.Millisecond

// TestMendLeavesWhatWorks: waiting, running and empty places alike.
func TestMendLeavesWhatWorks(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{})
	release := make(chan struct{})
	w := work(t, q, 1, func(ctx context.Context, d job.Delivery) {
		<-release
		must(t, d.Ack(ctx))
	}, offer("bubblewrap"))
	for range 3 {
		submit(t, q, newJob(t, nil))
	}
	w.wait(1)
	check := func() {
		for range 3 {
			got, err := q.Mend(testContext(t))
			must(t, err)
			if len(got) > 0 {
				t.Errorf("got %v made anew, want none", got)
			}
		}
	}
	check()
	close(release)
	w.wait(3)
	waitEmpty(t, q)
	check()
}

func TestStockAndServed(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{})
	submit(t, q, newJob(t, nil))
	submit(t, q, newJob(t, func(j *job.Job) { j.Tenant, j.Priority = "other", job.PriorityLow }))
	submit(t, q, newJob(t, func(j *job.Job) { j.Requires.Backends = []string{"docker"} }))
	got, err := q.Stock(testContext(t))
	must(t, err)
	if diff := cmp.Diff(map[string]int{"any": 2, "docker": 1}, got); diff != "" {
		t.Errorf("stock (-want +got):\n%s", diff)
	}
	must(t, q.Advertise(testContext(t), presence("w1", offer("bubblewrap"))))
	waitFor(t, "a worker in sight", func() bool { return q.Served("any") })
	if q.Served("docker") {
		t.Error("lane docker is served by a worker with bubblewrap")
	}
	if !q.Served("unheard-of") {
		t.Error("a lane that is not known is said to have no worker")
	}
}
