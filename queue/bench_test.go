package queue_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"airlock/job"
	"airlock/queue"
	"airlock/queue/natstest"
)

// BenchmarkClaimAck measures what one worker with 32 slots claims and
// acknowledges, jobs being there already.
func BenchmarkClaimAck(b *testing.B) {
	srv := natstest.Start(b)
	q := open(b, srv, queue.Config{MaxPerTenant: 10_000_000})
	var submitting sync.WaitGroup
	for range 16 {
		submitting.Go(func() {
			for range b.N/16 + 1 {
				submit(b, q, newJob(b, nil))
			}
		})
	}
	submitting.Wait()
	var done sync.WaitGroup
	done.Add(16 * (b.N/16 + 1))
	b.ResetTimer()
	work(b, q, 32, func(ctx context.Context, d job.Delivery) {
		must(b, d.Ack(ctx))
		done.Done()
	}, offer("bubblewrap"))
	done.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
}

// BenchmarkSubmitClaimAck is the same with submitters at work meanwhile.
func BenchmarkSubmitClaimAck(b *testing.B) {
	srv := natstest.Start(b)
	q, submitter := open(b, srv, queue.Config{MaxPerTenant: 10_000_000}), open(b, srv, queue.Config{MaxPerTenant: 10_000_000})
	var done sync.WaitGroup
	done.Add(32 * (b.N/32 + 1))
	work(b, q, 32, func(ctx context.Context, d job.Delivery) {
		must(b, d.Ack(ctx))
		done.Done()
	}, offer("bubblewrap"))
	b.ResetTimer()
	var submitting sync.WaitGroup
	for range 32 {
		submitting.Go(func() {
			for range b.N/32 + 1 {
				submit(b, submitter, newJob(b, nil))
			}
		})
	}
	submitting.Wait()
	done.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
}

// BenchmarkIdleLatency measures from the begin of Submit to the handler.
func BenchmarkIdleLatency(b *testing.B) {
	srv := natstest.Start(b)
	q := open(b, srv, queue.Config{})
	arrived := make(chan time.Time)
	work(b, q, 2, func(ctx context.Context, d job.Delivery) {
		arrived <- time.Now()
		must(b, d.Ack(ctx))
	}, offer("bubblewrap"))
	submit(b, q, newJob(b, nil))
	<-arrived
	var taken []time.Duration
	for b.Loop() {
		j := newJob(b, nil)
		start := time.Now()
		submit(b, q, j)
		taken = append(taken, (<-arrived).Sub(start))
	}
	slices.Sort(taken)
	b.ReportMetric(float64(taken[len(taken)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(taken[len(taken)*99/100].Microseconds()), "p99-µs")
}
