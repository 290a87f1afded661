package queue_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"airlock/job"
	"airlock/queue"
	"airlock/queue/natstest"
)

// TestStandingCountsTurns: of others only those that are served in between.
func TestStandingCountsTurns(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{MaxPerTenant: 40})
	fill := func(tenant string, priority job.Priority, n int, backends ...string) {
		for range n {
			submit(t, q, newJob(t, func(j *job.Job) { j.Tenant, j.Priority, j.Requires.Backends = tenant, priority, backends }))
		}
	}
	fill("default", job.PriorityNormal, 3)
	fill("a", job.PriorityNormal, 40)         // has four turns until the next of default's
	fill("b", job.PriorityNormal, 2)          // has two
	fill("a", job.PriorityHigh, 1)            // comes first
	fill("b", job.PriorityLow, 20)            // one in four of normal's
	fill("a", job.PriorityHigh, 30, "docker") // another lane
	for name, from := range map[string]*queue.Queue{"worker": q, "submitter": attach(t, srv)} {
		got, err := from.Standing(testContext(t), newJob(t, nil))
		must(t, err)
		if got.Full == nil || got.Full.Jobs != 3+40+2+1+20+30 || got.Full.MaxSize <= 0 {
			t.Errorf("got %+v as how full the queue is, seen by a %s, want its 96 jobs and a bound", got.Full, name)
		}
		got.Full = nil
		want := queue.Standing{Ahead: 3 + 4 + 2 + 1 + 2, Jobs: 3, Quota: 40}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("standing seen by a %s (-want +got):\n%s", name, diff)
		}
		if wait, known := got.Wait(); known {
			t.Errorf("got a wait of %s in a lane that never moved, want none", wait)
		}
	}
	high, err := q.Standing(testContext(t), newJob(t, func(j *job.Job) { j.Tenant, j.Priority = "new", job.PriorityHigh }))
	must(t, err)
	if high.Ahead > 2 || high.Jobs != 0 {
		t.Errorf("got %+v for a new tenant's urgent job, want it nearly first", high)
	}
}

func TestTheRateOfALaneGivesTheWait(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{})
	w := work(t, q, 2, nil, offer("bubblewrap"))
	for range 20 {
		submit(t, q, newJob(t, nil))
	}
	w.wait(20)
	waitEmpty(t, q)
	must(t, q.Advertise(testContext(t), presence("w1", offer("bubblewrap"))))
	submitter := attach(t, srv)
	waitFor(t, "the lane's rate", func() bool {
		s, err := submitter.Standing(testContext(t), newJob(t, nil))
		must(t, err)
		return s.Rate > 0
	})
	s := queue.Standing{Ahead: 30, Rate: 20}
	if wait, known := s.Wait(); !known || wait != 1500*time.Millisecond {
		t.Errorf("got a wait of %s, %v for 30 jobs at 20 per second, want 1.5s", wait, known)
	}
	s.Rate = 1e-300
	if wait, known := s.Wait(); !known || wait <= 0 || wait > 1001*time.Hour {
		t.Errorf("got a wait of %s, %v at next to no rate, want a long one", wait, known)
	}
}

// TestRefusalsSayHowMany: over quota has its numbers, also for a submitter; a
// full queue is another matter.
func TestRefusalsSayHowMany(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{MaxPerTenant: 2, MaxJobs: 3})
	submitter := attach(t, srv)
	try := func(from *queue.Queue, priority job.Priority) error {
		_, err := from.Submit(testContext(t), newJob(t, func(j *job.Job) { j.Priority = priority }), queue.SubmitOptions{Park: true})
		return err
	}
	must(t, try(submitter, job.PriorityLow))
	must(t, try(submitter, job.PriorityLow))
	for _, from := range []*queue.Queue{q, submitter} {
		err := try(from, job.PriorityLow)
		var quota *queue.QuotaError
		if !errors.Is(err, queue.ErrOverQuota) || !errors.As(err, &quota) {
			t.Fatalf("got error %v, want a *QuotaError that is ErrOverQuota", err)
		}
		want := &queue.QuotaError{Tenant: "default", Lane: "any", Priority: job.PriorityLow, Jobs: 2, Quota: 2}
		if diff := cmp.Diff(want, quota); diff != "" {
			t.Errorf("refusal (-want +got):\n%s", diff)
		}
		if text := err.Error(); !strings.Contains(text, "over quota: tenant default has 2 of at most 2 low jobs in lane any") {
			t.Errorf("got %q, want the numbers in it", text)
		}
	}
	must(t, try(submitter, job.PriorityHigh))
	if err := try(submitter, job.PriorityHigh); !errors.Is(err, queue.ErrQueueFull) || !strings.Contains(err.Error(), "queue full") {
		t.Errorf("got error %v, want ErrQueueFull", err)
	}
}

// TestIntakeStopsBeforeTheDiskIsFull: what the queue may not take is left for
// results and presence.
func TestIntakeStopsBeforeTheDiskIsFull(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{MaxBytes: 200 << 10})
	var err error
	for n := 0; err == nil && n < 100; n++ {
		j := newJob(t, func(j *job.Job) { j.Code = strings.Repeat("#", 20_000) + fmt.Sprint(n) })
		_, err = q.Submit(testContext(t), j, queue.SubmitOptions{Park: true})
	}
	if !errors.Is(err, queue.ErrQueueFull) {
		t.Fatalf("got error %v after 100 jobs of 20 KB in a queue of 200 KiB, want ErrQueueFull", err)
	}
	must(t, q.Advertise(testContext(t), presence("w1", offer("bubblewrap"))))
	result := &job.Result{Job: job.NewID(), Tenant: "default", Status: job.StatusOK, Stdout: job.Bytes(strings.Repeat("x", 100_000))}
	must(t, q.Announce(testContext(t), result))
}
