package wasm_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"airlock/backends"
	"airlock/backends/internal/guestproc"
	"airlock/job"
)

// BenchmarkRun is a whole run, from a call of Run to its return, of a guest
// whose process was not started ahead, and of one that stood ready. Beside the
// time that passes, which says little on a busy machine, it has the processor
// time of the worker and of the guest's process.
func BenchmarkRun(b *testing.B) {
	for name, code := range map[string]string{
		"print":   "print('hello')",
		"asyncio": "import asyncio\nawait asyncio.sleep(0)",
	} {
		b.Run("started/"+name, func(b *testing.B) { benchmarkRun(b, realBackend(b), code, 0) })
		b.Run("ready/"+name, func(b *testing.B) {
			// One at a time finds its guest ready if it waits for it.
			benchmarkRun(b, backends.Parked(realBackend(b), backends.ParkedConfig{Size: 2}), code, 300*time.Millisecond)
		})
	}
}

func benchmarkRun(b *testing.B, backend backends.Backend, code string, pause time.Duration) {
	defer backend.Close()
	if _, err := backend.Probe(b.Context()); err != nil {
		b.Skip(err)
	}
	var took []time.Duration
	var guests, workers time.Duration
	for b.Loop() {
		time.Sleep(pause)
		before, began := used(b), time.Now()
		guests += benchmarkGuest(b, backend, code)
		took, workers = append(took, time.Since(began)), workers+used(b)-before
	}
	if pause > 0 {
		time.Sleep(pause)
		reportSpares(b)
	}
	runs := time.Duration(len(took))
	b.ReportMetric((workers/runs).Seconds()*1e3, "worker-cpu-ms")
	b.ReportMetric((guests/runs).Seconds()*1e3, "guest-cpu-ms")
	slices.Sort(took)
	b.ReportMetric(took[len(took)/2].Seconds()*1e3, "p50-ms")
	b.ReportMetric(took[len(took)*99/100].Seconds()*1e3, "p99-ms")
}

// used is the processor time of this process so far, which stands for a worker.
func used(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// benchmarkGuest returns the processor time of the guest's process.
func benchmarkGuest(b *testing.B, backend backends.Backend, code string) time.Duration {
	outcome, err := backend.Run(b.Context(), backends.Task{
		Job: job.NewID(), Attempt: 1, Limits: job.DefaultLimits(), Stdout: io.Discard, Stderr: io.Discard,
		Serve: func(_ context.Context, channel io.ReadWriteCloser) error { return guestproc.Converse(channel, code) },
	})
	if err != nil || outcome.ExitCode != 0 || outcome.Cause != backends.Exited {
		b.Fatalf("got %+v, %v", outcome, err)
	}
	return outcome.CPU
}

// reportSpares tells how much memory a guest's process uses that stands ready.
func reportSpares(b *testing.B) {
	sums, spares := map[string]float64{}, children(b)
	for _, pid := range spares {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			b.Skip(err)
		}
		for line := range strings.Lines(string(data)) {
			var kib float64
			if name, value, ok := strings.Cut(line, ":"); ok {
				if _, err := fmt.Sscanf(value, "%f kB", &kib); err == nil {
					sums[name] += kib / 1024
				}
			}
		}
	}
	b.ReportMetric(sums["Rss"]/float64(len(spares)), "spare-rss-MiB")
	b.ReportMetric(sums["Pss"]/float64(len(spares)), "spare-pss-MiB")
}
