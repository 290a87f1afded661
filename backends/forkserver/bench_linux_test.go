package forkserver_test

import (
	"context"
	"io"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"airlock/backends"
	"airlock/backends/forkserver"
	"airlock/backends/internal/guestproc"
	"airlock/job"
)

// BenchmarkRun is a whole run, from a call of Run to its return, of a guest
// that was not forked ahead. Beside the time that passes, which says little on
// a busy machine, it has the processor time of the worker and of the slot with
// its guest.
func BenchmarkRun(b *testing.B) {
	for name, code := range map[string]string{
		"print":   "print('hello')",
		"asyncio": "import asyncio\nawait asyncio.sleep(0)",
	} {
		b.Run(name, func(b *testing.B) {
			backend := forkserver.New(forkserver.Config{Launcher: launcher, Python: os.Getenv(pythonVariable)})
			defer backend.Close()
			if _, err := backend.Probe(b.Context()); err != nil {
				b.Skip(err)
			}
			var took []time.Duration
			var guests time.Duration
			b.ReportAllocs()
			before := used(b)
			for b.Loop() {
				began := time.Now()
				guests += runGuest(b, backend, code)
				took = append(took, time.Since(began))
			}
			runs := time.Duration(len(took))
			b.ReportMetric(((used(b)-before)/runs).Seconds()*1e3, "worker-cpu-ms")
			b.ReportMetric((guests/runs).Seconds()*1e3, "guest-cpu-ms")
			slices.Sort(took)
			b.ReportMetric(took[len(took)/2].Seconds()*1e3, "p50-ms")
			b.ReportMetric(took[len(took)*99/100].Seconds()*1e3, "p99-ms")
		})
	}
}

// used is the processor time of this process so far, which stands for a worker.
func used(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// runGuest returns the processor time of the guest and of its slot.
func runGuest(b *testing.B, backend backends.Backend, code string) time.Duration {
	outcome, err := backend.Run(b.Context(), backends.Task{
		Job: job.NewID(), Attempt: 1, Limits: job.DefaultLimits(), Stdout: io.Discard, Stderr: io.Discard,
		Serve: func(_ context.Context, channel io.ReadWriteCloser) error { return guestproc.Converse(channel, code) },
	})
	if err != nil || outcome.ExitCode != 0 || outcome.Cause != backends.Exited {
		b.Fatalf("got %+v, %v", outcome, err)
	}
	return outcome.CPU
}
