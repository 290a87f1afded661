package store_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"airlock/job"
)

// cycle is what a job costs the database: claim, finish, announced.
func cycle(ctx context.Context, f *fixture, j *job.Job) error {
	got, err := f.Claim(ctx, job.ClaimRequest{Job: j, Generation: 1, Worker: "w", Backend: "fake"})
	if err != nil {
		return err
	}
	a := &job.Attempt{Job: j, Number: got.Attempt, Worker: "w", Backend: "fake"}
	if err := f.Finish(ctx, a, resultOf(a, job.StatusOK), 0); err != nil {
		return err
	}
	return f.Announced(ctx, j.ID, 0)
}

func BenchmarkClaimFinish(b *testing.B) {
	for _, bench := range []struct {
		name    string
		callers int
		queued  bool
	}{{"1", 1, false}, {"32", 32, false}, {"32recorded", 32, true}} {
		b.Run(bench.name, func(b *testing.B) {
			f := open(b)
			jobs := make([]*job.Job, b.N)
			for i := range jobs {
				jobs[i] = newJob(b, inBatch("bench"))
			}
			if bench.queued {
				record(b, f, jobs)
			}
			b.ResetTimer()
			runCycles(b, f, jobs, bench.callers)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
		})
	}
}

func record(b *testing.B, f *fixture, jobs []*job.Job) {
	for chunk := range slices.Chunk(jobs, 256) {
		var rows []job.Queued
		for _, j := range chunk {
			rows = append(rows, queued(b, j))
		}
		if err := f.RecordQueued(b.Context(), rows); err != nil {
			b.Fatal(err)
		}
	}
}

func runCycles(b *testing.B, f *fixture, jobs []*job.Job, callers int) {
	var next atomic.Int64
	var running sync.WaitGroup
	for range callers {
		running.Go(func() {
			for i := next.Add(1) - 1; int(i) < len(jobs); i = next.Add(1) - 1 {
				if err := cycle(b.Context(), f, jobs[i]); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	running.Wait()
}

// BenchmarkClaim is the wait of a lone caller.
func BenchmarkClaim(b *testing.B) {
	f := open(b)
	took := make([]time.Duration, b.N)
	for i := range b.N {
		j := newJob(b)
		began := time.Now()
		f.ask(j, 1, "w")
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}

// queued is the fact that the job entered the queue.
func queued(t testing.TB, j *job.Job) job.Queued {
	t.Helper()
	spec, err := j.Encode()
	if err != nil {
		t.Fatalf("encode job: %v", err)
	}
	return job.Queued{Job: j, Spec: spec, Generation: 1, At: time.Now()}
}

// BenchmarkCall is what the audit adds to a lone tool call.
func BenchmarkCall(b *testing.B) {
	f := open(b)
	j := newJob(b)
	a := f.claim(j, 1, "w")
	took := make([]time.Duration, b.N)
	for i := range b.N {
		c := callOf(a, i+1)
		began := time.Now()
		if err := f.CallStarted(b.Context(), a, c); err != nil {
			b.Fatal(err)
		}
		c.State, c.Answer, c.Ended = job.CallOK, []byte(`{"sum":3}`), time.Now()
		if err := f.CallEnded(b.Context(), a, c); err != nil {
			b.Fatal(err)
		}
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}
