package integration_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"airlock/job"
	"airlock/queue"
	"airlock/queue/natstest"
	"airlock/store/storetest"
	"airlock/worker"
)

// TestAWipedQueueIsRebuiltFromPostgres: the server comes back with an empty
// store, and every job that waited is run, once each, with nobody's help.
func TestAWipedQueueIsRebuiltFromPostgres(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("a loss is believed after some twenty seconds")
	}
	srv, ledger := natstest.Start(t), storetest.Open(t)
	q, err := queue.Open(t.Context(), srv.ConnectAs("worker"), queue.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var duties sync.WaitGroup
	t.Cleanup(func() {
		stop()
		duties.Wait()
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	})
	var decisions worker.Decisions
	r := &worker.Reconciler{
		Backlog: ledger, Publisher: q, Results: q, Fleet: q, Decisions: &decisions, PlacementDeadline: time.Hour, Log: zerolog.Nop(),
	}
	duties.Go(func() { _ = q.Record(ctx, ledger.RecordQueued) })
	duties.Go(func() { r.Run(ctx) })

	const jobs = 60
	want := map[job.ID]bool{}
	for i := range jobs {
		j := &job.Job{Code: "1", Tenant: []string{"a", "b", "c"}[i%3]}
		if err := j.Prepare(time.Now()); err != nil {
			t.Fatal(err)
		}
		if _, err := q.Submit(ctx, j, queue.SubmitOptions{Park: true}); err != nil {
			t.Fatal(err)
		}
		want[j.ID] = true
	}
	until(t, time.Minute, "all jobs recorded", func() bool {
		waiting, err := ledger.Waiting(ctx, -time.Minute)
		return err == nil && waiting["any"] == jobs
	})
	srv.Wipe()
	offer := job.Offer{Backend: "fake", Version: "1", Isolation: job.IsolationStrong, OS: "linux", Arch: "amd64", Limits: job.KernelLimits()}
	duties.Go(func() {
		for ctx.Err() == nil {
			_ = q.Advertise(ctx, queue.Presence{ID: "w1", Host: "h", Started: time.Now(), Slots: 1, Offers: []job.Offer{offer}})
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
	var mu sync.Mutex
	ran := map[job.ID]int{}
	duties.Go(func() {
		_ = q.Consume(ctx, queue.ConsumerConfig{
			Slots: 4, Offers: func() []job.Offer { return []job.Offer{offer} },
			Handler: func(ctx context.Context, d job.Delivery) {
				claim, err := ledger.Claim(ctx, job.ClaimRequest{Job: d.Job, Generation: d.Generation, Worker: "w1", Backend: "fake", Queued: d.Queued})
				if err != nil || claim.Verdict != job.Claimed {
					_ = d.Ack(ctx)
					return
				}
				a := &job.Attempt{Job: d.Job, Number: claim.Attempt, Worker: "w1", Backend: "fake"}
				result := &job.Result{Job: d.Job.ID, Tenant: d.Job.Tenant, Status: job.StatusOK, Attempt: a.Number, Worker: "w1", Backend: "fake"}
				if err := ledger.Finish(ctx, a, result, 0); err != nil {
					t.Errorf("finish: %v", err)
				}
				_ = d.Ack(ctx)
				mu.Lock()
				defer mu.Unlock()
				ran[d.Job.ID]++
			},
		})
	})
	until(t, 90*time.Second, "every job run after the loss", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(ran) >= jobs
	})
	until(t, time.Minute, "the queue empty", func() bool {
		stock, err := q.Stock(ctx)
		return err == nil && len(stock) == 0
	})
	mu.Lock()
	defer mu.Unlock()
	for id := range want {
		if ran[id] != 1 {
			t.Errorf("job %s ran %d times, want once", id, ran[id])
		}
	}
	if got := decisions.Counts()["rebuilt"]; got != jobs {
		t.Errorf("got %d jobs rebuilt, want %d", got, jobs)
	}
}
