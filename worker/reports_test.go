package worker_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"airlock/backends"
	"airlock/backends/fake"
	"airlock/job"
)

// The tests of this file act out what users of worker pools reported. Their
// numbers are those of integration/reports_test.go.

// F40: a backend that does not return once its guest should be long gone has
// the lease renewed no more, so that another worker gets the job; what it comes
// back with is told to nobody.
func TestF40AWedgedAttemptLosesItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		wedged := func(context.Context, *fake.Guest) (backends.Outcome, error) {
			<-release // whoever calls it off
			return backends.Outcome{Cause: backends.Exited}, nil
		}
		b := newBench(t, &ledger{}, said{report: &job.Report{Ready: time.Now(), Done: true, Value: []byte("1")}}, wedged, nil)
		stop := heartbeat(t, b)
		over := make(chan struct{})
		go func() { defer close(over); b.Handle(t.Context(), b.delivery()) }()
		alive := func() (n int) {
			for _, step := range b.ledger.seen() {
				if step == "alive" {
					n++
				}
			}
			return n
		}
		time.Sleep(10 * time.Minute)
		before := alive()
		time.Sleep(10 * time.Minute)
		if got := alive(); got != before || before == 0 {
			t.Errorf("the queue was told %d times in ten minutes that a wedged job lives, and %d times after that; want none", before, got-before)
		}
		close(release)
		<-over
		stop()
		for _, step := range b.ledger.seen() {
			if step != "alive" {
				t.Errorf("got step %q of a wedged attempt that came back, want silence", step)
			}
		}
	})
}
