package main

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"airlock/job"
)

// heapPeak watches the live heap until stopped.
func heapPeak() (stop func() uint64) {
	var (
		wg   sync.WaitGroup
		peak uint64
		done = make(chan struct{})
	)
	wg.Go(func() {
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			peak = max(peak, m.HeapInuse)
			select {
			case <-ticker.C:
			case <-done:
				return
			}
		}
	})
	return func() uint64 {
		close(done)
		wg.Wait()
		return peak
	}
}

// TestBatchOfFiveThousand runs everything there is: server, workers, submitter.
func TestBatchOfFiveThousand(t *testing.T) {
	t.Parallel()
	const n = 5000
	f := newFleet(t, fleetConfig{})
	file := jobsFile(t, n)
	start := time.Now()
	f.submit("batch", file, "-o", file+".out", "--quiet").want(t, codeOK)
	took := time.Since(start)
	wantLines(t, results(t, read(t, file+".out")), n)
	if jobs, again := f.ran(); jobs != n || again != 0 {
		t.Errorf("got %d jobs run, %d of them again, want %d and 0", jobs, again, n)
	}
	start = time.Now()
	second := f.submit("batch", file, "--quiet").want(t, codeOK)
	wantLines(t, results(t, second.stdout), n)
	if jobs, _ := f.ran(); jobs != n {
		t.Errorf("got %d jobs after the second run, want %d", jobs, n)
	}
	t.Logf("%d jobs: %.0f jobs/s; second run without a file of results: %.0f jobs/s", n,
		n/took.Seconds(), n/time.Since(start).Seconds())
}

func BenchmarkBatch(b *testing.B) {
	for _, n := range []int{10_000, 40_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				f := newFleet(b, fleetConfig{})
				file := jobsFile(b, n)
				runtime.GC()
				stop := heapPeak()
				start := time.Now()
				f.submit("batch", file, "-o", file+".out", "--quiet").want(b, codeOK)
				b.ReportMetric(float64(n)/time.Since(start).Seconds(), "jobs/s")
				b.ReportMetric(float64(stop())/(1<<20), "heap-MiB")
			}
		})
	}
}

// BenchmarkWrite is what a result costs.
func BenchmarkWrite(b *testing.B) {
	out, err := openResults(b.TempDir() + "/out")
	if err != nil {
		b.Fatal(err)
	}
	r := &job.Result{Job: job.NewID(), Status: job.StatusOK, Stdout: job.Bytes(strings.Repeat("x", 300))}
	for b.Loop() {
		if err := out.add(ref{line: 1}, r); err != nil {
			b.Fatal(err)
		}
	}
}
