package worker_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"airlock/backends"
	"airlock/job"
)

// TestOnlyNamedFailuresAreRetried: a guest's own failure is its job's result,
// unless retry_on names it.
func TestOnlyNamedFailuresAreRetried(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		retryOn []job.Status
		attempt int
		exit    int
		want    []string
	}{
		{"none is named", nil, 1, 3, []string{"finish", "ack", "announce", "announced"}},
		{"another is named", []job.Status{job.StatusTimeout}, 1, 3, []string{"finish", "ack", "announce", "announced"}},
		{"it is named", []job.Status{job.StatusTimeout, job.StatusGuestError}, 1, 3, []string{"retry", "ack"}},
		{"it is named and the last", []job.Status{job.StatusGuestError}, 3, 3, []string{"finish", "ack", "announce", "announced"}},
		{"success is not", []job.Status{job.StatusGuestError}, 1, 0, []string{"finish", "ack", "announce", "announced"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			l := &ledger{claim: job.Claim{Verdict: job.Claimed, Attempt: tc.attempt}}
			told := said{report: &job.Report{Ready: time.Now(), Done: true}}
			b := newBench(t, l, told, ends(backends.Outcome{Cause: backends.Exited, ExitCode: tc.exit}),
				func(j *job.Job, _ *workerConfig) { j.RetryOn = tc.retryOn })
			b.Handle(t.Context(), b.delivery())
			if diff := cmp.Diff(tc.want, l.seen()); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
		})
	}
}

// TestEarlierTriesStandBesideAResult: also when they cannot be read at once,
// for then the reconciler announces.
func TestEarlierTriesStandBesideAResult(t *testing.T) {
	t.Parallel()
	tries := []job.AttemptRecord{{Number: 1, Outcome: "lost"}, {Number: 2, Outcome: "finished"}}
	for _, tc := range []struct {
		name    string
		attempt int
		err     error
		want    []job.AttemptRecord
		steps   []string
	}{
		{"the second try", 2, nil, tries, []string{"finish", "ack", "announce", "announced"}},
		{"the first try", 1, nil, nil, []string{"finish", "ack", "announce", "announced"}},
		{"they cannot be read", 2, errors.New("gone"), nil, []string{"finish", "ack"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			l := &ledger{claim: job.Claim{Verdict: job.Claimed, Attempt: tc.attempt}, tries: tries, triesErr: tc.err}
			told := said{report: &job.Report{Ready: time.Now(), Done: true}}
			b := newBench(t, l, told, ends(backends.Outcome{Cause: backends.Exited}), nil)
			b.Handle(t.Context(), b.delivery())
			if diff := cmp.Diff(tc.want, l.last().Attempts); diff != "" {
				t.Errorf("attempts (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.steps, l.seen()); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRetriesBackOffAndSpread: each pause is about twice the one before, to a
// minute at most, and jobs that failed together do not come back together.
func TestRetriesBackOffAndSpread(t *testing.T) {
	t.Parallel()
	for attempt, about := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 4: 8 * time.Second, 7: time.Minute, 19: time.Minute} {
		seen := map[time.Duration]bool{}
		for range 20 {
			l := &ledger{claim: job.Claim{Verdict: job.Claimed, Attempt: attempt}}
			b := newBench(t, l, said{report: &job.Report{}}, lost, func(j *job.Job, _ *workerConfig) { j.MaxAttempts = 20 })
			b.Handle(t.Context(), b.delivery())
			if len(l.pauses) != 1 || l.pauses[0] < about*3/4 || l.pauses[0] > about*5/4 {
				t.Fatalf("attempt %d: got pauses %v, want one of about %s", attempt, l.pauses, about)
			}
			seen[l.pauses[0]] = true
		}
		if len(seen) < 10 {
			t.Errorf("attempt %d: got %d different pauses of 20, want them spread", attempt, len(seen))
		}
	}
}
