package forkserver_test

import (
	"context"
	"io"
	"slices"
	"testing"
	"time"

	"airlock/backends"
	"airlock/backends/forkserver"
	"airlock/backends/internal/guestproc"
	"airlock/job"
)

// BenchmarkRun is a whole run, from a call of Run to its return, of a guest
// that was not forked ahead.
func BenchmarkRun(b *testing.B) {
	for name, code := range map[string]string{
		"print":   "print('hello')",
		"asyncio": "import asyncio\nawait asyncio.sleep(0)",
	} {
		b.Run(name, func(b *testing.B) {
			backend := forkserver.New(forkserver.Config{Launcher: launcher})
			defer backend.Close()
			if _, err := backend.Probe(b.Context()); err != nil {
				b.Skip(err)
			}
			var took []time.Duration
			b.ReportAllocs()
			for b.Loop() {
				began := time.Now()
				runGuest(b, backend, code)
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(took[len(took)/2].Seconds()*1e3, "p50-ms")
			b.ReportMetric(took[len(took)*99/100].Seconds()*1e3, "p99-ms")
		})
	}
}

func runGuest(b *testing.B, backend backends.Backend, code string) {
	outcome, err := backend.Run(b.Context(), backends.Task{
		Job: job.NewID(), Attempt: 1, Limits: job.DefaultLimits(), Stdout: io.Discard, Stderr: io.Discard,
		Serve: func(_ context.Context, channel io.ReadWriteCloser) error { return guestproc.Converse(channel, code) },
	})
	if err != nil || outcome.ExitCode != 0 || outcome.Cause != backends.Exited {
		b.Fatalf("got %+v, %v", outcome, err)
	}
}
