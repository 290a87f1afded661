package queue_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"airlock/job"
	"airlock/queue"
	"airlock/queue/natstest"
)

// looksAt counts how often a worker asks for a job.
func looksAt(t *testing.T, srv *natstest.Server) *atomic.Int64 {
	t.Helper()
	var looks atomic.Int64
	nc := srv.Connect()
	_, err := nc.Subscribe("$JS.API.CONSUMER.MSG.NEXT.JOBS.>", func(*nats.Msg) { looks.Add(1) })
	must(t, err)
	must(t, nc.Flush())
	return &looks
}

// TestOneLookPerJob: a worker that was told of one job does not look for
// others. The bound leaves room for the looks now and then, and for bells that
// come late.
func TestOneLookPerJob(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q, submitter := open(t, srv, queue.Config{}), attach(t, srv)
	arrived := make(chan struct{})
	work(t, q, 4, func(ctx context.Context, d job.Delivery) {
		must(t, d.Ack(ctx))
		arrived <- struct{}{}
	}, offer("bubblewrap"))
	submit(t, submitter, newJob(t, nil)) // which has the lane joined
	<-arrived
	looks := looksAt(t, srv)
	const jobs = 200
	began := time.Now()
	for range jobs {
		submit(t, submitter, newJob(t, nil))
		<-arrived
		<-time.After(5 * time.Millisecond) // for looks that would follow
	}
	nowAndThen := int64(time.Since(began)/(250*time.Millisecond)) + 1
	if got := looks.Load(); got > 2*jobs+nowAndThen {
		t.Errorf("got %d looks for %d jobs, one after the other, and up to %d now and then", got, jobs, nowAndThen)
	}
}

// TestFindsWhatNoBellRings: jobs that were given back ring none, and one look
// after the other finds them all.
func TestFindsWhatNoBellRings(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{})
	const jobs = 150 // more than the looks now and then would find in time
	var given atomic.Int64
	all := make(chan struct{})
	w := work(t, q, jobs, func(ctx context.Context, d job.Delivery) {
		if n := given.Add(1); n > jobs {
			must(t, d.Ack(ctx))
			return
		} else if n == jobs {
			close(all)
		}
		<-all
		must(t, d.Later(0))
	}, offer("bubblewrap"))
	for range jobs {
		submit(t, q, newJob(t, nil))
	}
	w.wait(2 * jobs)
	waitEmpty(t, q)
}
