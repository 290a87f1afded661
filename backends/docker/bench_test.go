package docker_test

import (
	"context"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"airlock/backends"
	"airlock/backends/docker"
	"airlock/backends/internal/guestproc"
	"airlock/job"
)

// BenchmarkRun measures whole runs of the smallest job, from a call of Run to
// its return, and from the call to the guest's result, by turns with a guest
// started for the job and one that stood ready.
func BenchmarkRun(b *testing.B) { measureRuns(b, docker.Config{}) }

// BenchmarkRemote measures the same where the kernel's counters cannot be read.
func BenchmarkRemote(b *testing.B) { measureRuns(b, docker.Config{}.Remote()) }

func measureRuns(b *testing.B, config docker.Config) {
	cold := open(b, config)
	warm := backends.Parked(docker.New(config), backends.ParkedConfig{Size: 1})
	defer warm.Close()
	if _, err := warm.Probe(b.Context()); err != nil {
		b.Fatal(err)
	}
	var coldRun, coldResult, warmRun, warmResult []time.Duration
	for b.Loop() {
		result, run := measure(b, cold, false)
		coldResult, coldRun = append(coldResult, result), append(coldRun, run)
		settle(b)
		result, run = measure(b, warm, false)
		warmResult, warmRun = append(warmResult, result), append(warmRun, run)
		settle(b)
	}
	b.ReportMetric(median(coldResult), "cold-result-p50-ms")
	b.ReportMetric(median(coldRun), "cold-p50-ms")
	b.ReportMetric(median(warmResult), "parked-result-p50-ms")
	b.ReportMetric(median(warmRun), "parked-p50-ms")
}

// settle gives the next parked guest time to stand ready.
func settle(b *testing.B) {
	timer := time.NewTimer(400 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-b.Context().Done():
	}
}

func measure(b *testing.B, backend backends.Backend, network bool) (result, run time.Duration) {
	began := time.Now()
	out, err := backend.Run(b.Context(), backends.Task{
		Job: job.NewID(), Attempt: 1, Limits: job.DefaultLimits(), Network: network, Stdout: io.Discard, Stderr: io.Discard,
		Serve: func(_ context.Context, channel io.ReadWriteCloser) error {
			err := guestproc.Converse(channel, "pass")
			result = time.Since(began)
			return err
		},
	})
	if err != nil || out.Cause != backends.Exited || out.ExitCode != 0 {
		b.Errorf("got %+v and error %v, want exit 0", out, err)
	}
	return result, time.Since(began)
}

func median(all []time.Duration) float64 {
	slices.Sort(all)
	return all[len(all)/2].Seconds() * 1e3
}

// BenchmarkSlots measures how many of the smallest jobs two slots get through,
// each with a guest of its own, until nothing of them is left.
func BenchmarkSlots(b *testing.B) {
	open(b, docker.Config{})
	backend := docker.New(docker.Config{})
	if _, err := backend.Probe(b.Context()); err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	var slots sync.WaitGroup
	for slot := range 2 {
		slots.Go(func() {
			for i := slot; i < b.N; i += 2 {
				measure(b, backend, false)
			}
		})
	}
	slots.Wait()
	if err := backend.Close(); err != nil {
		b.Error(err)
	}
	b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "jobs/s")
}

// BenchmarkNetwork measures what a network costs, by turns with none.
func BenchmarkNetwork(b *testing.B) {
	name := own("bench")
	open(b, docker.Config{})
	guestNetwork(b, name)
	backend := open(b, docker.Config{Network: name})
	var none, some []time.Duration
	for b.Loop() {
		_, run := measure(b, backend, false)
		none = append(none, run)
		settle(b)
		_, run = measure(b, backend, true)
		some = append(some, run)
		settle(b)
	}
	b.ReportMetric(median(none), "none-p50-ms")
	b.ReportMetric(median(some), "network-p50-ms")
}
