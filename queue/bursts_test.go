package queue_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"airlock/job"
	"airlock/queue"
	"airlock/queue/natstest"
)

// More of what users reported; see reports_test.go.

// F17: what a worker holds that died without a word is still counted as the
// queue's, however long nobody pulls: who scales by it is not misled. Then it
// is run.
func TestF17WhatDeadWorkersHoldIsStillWaitedFor(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	cfg := queue.Config{AckWait: 300 * time.Millisecond}
	q := open(t, srv, cfg)
	const jobs = 4
	for range jobs {
		submit(t, q, newJob(t, nil))
	}
	dead := work(t, q, jobs, func(context.Context, job.Delivery) {}, offer("bubblewrap"))
	dead.wait(jobs)
	dead.end()
	<-time.After(3 * cfg.AckWait) // nothing is to happen meanwhile
	stock, err := q.Stock(testContext(t))
	must(t, err)
	standing, err := q.Standing(testContext(t), newJob(t, nil))
	must(t, err)
	if stock["any"] != jobs || standing.Jobs != jobs {
		t.Errorf("got %d in the queue and %d as the tenant's, want %d each: nobody is done with them", stock["any"], standing.Jobs, jobs)
	}
	next := work(t, open(t, srv, cfg), 2, nil, offer("bubblewrap"))
	next.wait(jobs)
	waitEmpty(t, q)
}

// F19: a power cut took the end of the stream, and the consumer believes to be
// past what comes then. New jobs arrive all the same.
func TestF19ATornStreamGivesNewJobsOut(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{})
	w := work(t, q, 1, nil, offer("bubblewrap"))
	const before, after = 20, 5
	for range before {
		submit(t, q, newJob(t, nil))
	}
	w.wait(before)
	waitEmpty(t, q)
	srv.Stop()
	tear(t, filepath.Join(srv.StoreDir(), "jetstream", queue.Account, "streams", "JOBS", "msgs"))
	srv.Resume()
	for range after {
		submit(t, q, newJob(t, nil))
	}
	js, err := jetstream.New(srv.Connect())
	must(t, err)
	stream, err := js.Stream(testContext(t), "JOBS")
	must(t, err)
	if last := stream.CachedInfo().State.LastSeq; last > before {
		t.Fatalf("the stream is at %d after %d jobs: it lost nothing", last, after)
	}
	// As the reconciler does.
	for deadline := time.Now().Add(3 * patience); len(w.deliveries()) < before+after; <-time.After(100 * time.Millisecond) {
		if _, err := q.Mend(testContext(t)); err != nil {
			t.Logf("mend: %v", err)
		}
		if time.Now().After(deadline) {
			t.Fatalf("got %d of %d jobs after the stream was torn", len(w.deliveries())-before, after)
		}
	}
	waitEmpty(t, q)
}

// tear leaves nothing of a stream's messages, and no note of where it was.
func tear(t *testing.T, dir string) {
	t.Helper()
	blocks, err := filepath.Glob(filepath.Join(dir, "*.blk"))
	must(t, err)
	if len(blocks) == 0 {
		t.Fatalf("there is no block in %s", dir)
	}
	for _, block := range blocks {
		must(t, os.Truncate(block, 0))
	}
	if err := os.Remove(filepath.Join(dir, "index.db")); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
}

// F33: a burst into three servers, which is worked off while it comes: each job
// arrives once, and nothing is left of it in the streams.
func TestF33ABurstOnThreeServersLeavesNothing(t *testing.T) {
	t.Parallel()
	nc, err := queue.Connect(testContext(t), natstest.StartCluster(t, 3), "test", testLog(t))
	must(t, err)
	t.Cleanup(nc.Close)
	q, err := queue.Open(testContext(t), nc, queue.Config{Log: testLog(t)})
	must(t, err)
	t.Cleanup(func() { must(t, q.Close()) })
	const jobs = 800
	var mu sync.Mutex
	seen := map[job.ID]int{}
	w := work(t, q, 16, func(ctx context.Context, d job.Delivery) {
		mu.Lock()
		seen[d.Job.ID]++
		mu.Unlock()
		must(t, d.Ack(ctx))
	}, offer("bubblewrap"))
	var burst sync.WaitGroup
	for range jobs / 10 {
		burst.Go(func() {
			for range 10 {
				submit(t, q, newJob(t, nil))
			}
		})
	}
	burst.Wait()
	for n := jobs / 8; n <= jobs; n += jobs / 8 {
		w.wait(n) // a busy machine is slow, which is no failure: the burst must go on
	}
	waitEmpty(t, q)
	js, err := jetstream.New(nc)
	must(t, err)
	stream, err := js.Stream(testContext(t), "JOBS")
	must(t, err)
	if s := stream.CachedInfo().State; s.Msgs > 0 || s.Bytes > 0 {
		t.Errorf("JOBS holds %d messages of %d bytes when all have ended", s.Msgs, s.Bytes)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(seen) != jobs {
		t.Errorf("got %d jobs, want %d", len(seen), jobs)
	}
	for id, times := range seen {
		if times > 1 {
			t.Errorf("job %s arrived %d times", id, times)
		}
	}
}

// F50: all slots of all workers are busy at once; no counter of the whole fleet
// stands between.
func TestF50AllSlotsAreBusyAtOnce(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{})
	const slots = 40
	for range 2 * slots {
		submit(t, q, newJob(t, nil))
	}
	var busy sync.WaitGroup
	busy.Add(slots)
	release := make(chan struct{})
	all := make(chan struct{})
	go func() { defer close(all); busy.Wait() }()
	handle := func(ctx context.Context, d job.Delivery) {
		select {
		case <-release:
		default:
			busy.Done()
			<-release
		}
		must(t, d.Ack(ctx))
	}
	for range 2 {
		work(t, open(t, srv, queue.Config{}), slots/2, handle, offer("bubblewrap"))
	}
	select {
	case <-all:
	case <-time.After(patience):
		_, running := total(t, q)
		t.Errorf("%d of %d slots are busy, and jobs wait", running, slots)
	}
	close(release)
	waitEmpty(t, q)
}

// F56: whoever floods the doorbell has messages dropped that nobody is told of.
// Nothing that counts is among them: jobs arrive, and a cancellation holds.
func TestF56AFloodOfPlainMessagesLosesNothing(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{})
	w := work(t, q, 2, nil, offer("bubblewrap"))
	nc := srv.Connect()
	// For each tenant that rings for the first time a consumer is made, on a busy
	// machine a tenth of a second each.
	const jobs, tenants = 50, 50
	var flood sync.WaitGroup
	flood.Go(func() {
		for n := range 100_000 {
			must(t, nc.Publish(fmt.Sprintf("bell.any.normal.t%d", n%tenants), nil))
		}
		must(t, nc.FlushTimeout(patience))
	})
	for range jobs {
		submit(t, q, newJob(t, nil))
	}
	cancelled := newJob(t, nil)
	must(t, q.Cancel(testContext(t), "default", queue.CancelTarget{Job: cancelled.ID}))
	flood.Wait()
	for n := jobs / 5; n <= jobs; n += jobs / 5 {
		w.wait(n) // a busy machine is slow, which is no failure
	}
	waitFor(t, "the cancellation", func() bool { return q.Cancelled("default", cancelled) })
	waitEmpty(t, q)
}
