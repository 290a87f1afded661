package worker_test

import (
	"testing"
	"time"

	"github.com/rs/zerolog"

	"airlock/backends"
	"airlock/job"
)

// BenchmarkHandle is what an attempt costs the worker itself: the ledger, the
// queue, the conversation and the guest cost nothing.
func BenchmarkHandle(b *testing.B) {
	l := &ledger{}
	tools := said{report: &job.Report{Ready: time.Now(), Done: true, Value: []byte("1")}}
	w := newBench(b, l, tools, ends(backends.Outcome{Cause: backends.Exited}), func(_ *job.Job, cfg *workerConfig) { cfg.Log = zerolog.Nop() })
	b.ReportAllocs()
	for b.Loop() {
		w.Handle(b.Context(), w.delivery())
	}
	if got := l.last(); got.Status != job.StatusOK {
		b.Fatalf("got status %s and %+v, want ok", got.Status, got.Error)
	}
}
