package queue_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"airlock/job"
	"airlock/queue"
	"airlock/queue/natstest"
)

func TestNewsReachWhoWantsThem(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	worker := open(t, srv, queue.Config{})
	gateway := attachGateway(t, srv)
	wanted, other := newJob(t, func(j *job.Job) { j.Batch = "b" }), newJob(t, nil)
	heard := make(chan queue.Event, 100)
	background(t, func(ctx context.Context) error {
		return gateway.OverhearEvents(ctx, func(id job.ID) bool { return id == wanted.ID }, func(e queue.Event) {
			select {
			case heard <- e:
			default: // one is enough
			}
		})
	})
	n := job.News{Kind: job.NewsOutput, Attempt: 2, At: time.Now().UTC(), Stream: "stdout", Offset: 7, Data: job.Bytes("\xff\n\x00")}
	for until := time.Now().Add(patience); len(heard) == 0 && time.Now().Before(until); time.Sleep(5 * time.Millisecond) {
		worker.Tell(other, n)
		worker.Tell(wanted, n)
	}
	got := <-heard
	if got.Tenant != wanted.Tenant || got.Batch != "b" || got.Job != wanted.ID || got.Size == 0 {
		t.Errorf("got news of %s/%s/%s, want those of the wanted job", got.Tenant, got.Batch, got.Job)
	}
	if diff := cmp.Diff(n, got.News); diff != "" {
		t.Errorf("news (-want +got):\n%s", diff)
	}
}

func attachGateway(t testing.TB, srv *natstest.Server) *queue.Queue {
	t.Helper()
	q, err := queue.Attach(testContext(t), srv.ConnectAs(string(queue.RoleGateway)), queue.Config{Log: testLog(t)})
	must(t, err)
	t.Cleanup(func() { must(t, q.Close()) })
	return q
}

// BenchmarkTell is what news cost the worker that tells them, with somebody who
// hears them.
func BenchmarkTell(b *testing.B) {
	srv := natstest.Start(b)
	q := open(b, srv, queue.Config{})
	gateway := attachGateway(b, srv)
	j := newJob(b, nil)
	n := job.News{Kind: job.NewsCall, Attempt: 1, At: time.Now().UTC(), Link: 3, Seq: 2, Namespace: "math", Name: "add", State: job.CallOK}
	var heard atomic.Int64
	background(b, func(ctx context.Context) error {
		return gateway.OverhearEvents(ctx, func(job.ID) bool { return true }, func(queue.Event) { heard.Add(1) })
	})
	b.ReportAllocs()
	for b.Loop() {
		q.Tell(j, n)
	}
}
