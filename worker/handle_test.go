package worker_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"airlock/backends"
	"airlock/backends/fake"
	"airlock/job"
)

func TestVerdictsDecideWhatTheQueueIsTold(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		verdict job.Verdict
		err     error
		want    string
	}{
		{verdict: job.Ended, want: "ack"},
		{verdict: job.Superseded, want: "ack"},
		{verdict: job.Postponed, want: "ack"},
		{verdict: job.Mismatched, want: "ack"},
		{verdict: job.Held, want: "later"},
		{verdict: job.Claimed, err: job.ErrUnreachable, want: "later"},
	} {
		t.Run(tc.verdict.String(), func(t *testing.T) {
			t.Parallel()
			l := &ledger{claim: job.Claim{Verdict: tc.verdict}, claimed: tc.err}
			b := newBench(t, l, said{}, lives, nil)
			b.Handle(t.Context(), b.delivery())
			if diff := cmp.Diff([]string{tc.want}, l.seen()); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAClaimWithoutAnAnswerIsMadeAgain: given to another worker, the job would
// wait for the end of a lease that nobody knows of.
func TestAClaimWithoutAnAnswerIsMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{silent: 3}
		b := newBench(t, l, said{report: &job.Report{Ready: time.Now(), Done: true, Value: []byte("1")}}, ends(backends.Outcome{Cause: backends.Exited}), nil)
		b.Handle(t.Context(), b.delivery())
		if diff := cmp.Diff([]string{"finish", "ack", "announce", "announced"}, l.seen()); diff != "" {
			t.Errorf("steps (-want +got):\n%s", diff)
		}
	})
}

// TestAResultWaitsForOthersOnlyWhileJobsWait: otherwise somebody may wait for it
// to submit the next.
func TestAResultWaitsForOthersOnlyWhileJobsWait(t *testing.T) {
	t.Parallel()
	for _, behind := range []bool{true, false} {
		b := newBench(t, &ledger{}, said{report: &job.Report{Ready: time.Now(), Done: true, Value: []byte("1")}}, ends(backends.Outcome{Cause: backends.Exited}), nil)
		d := b.delivery()
		d.Behind = behind
		b.Handle(t.Context(), d)
		if got := b.ledger.lingers; len(got) != 1 || (got[0] > 0) != behind {
			t.Errorf("with jobs behind it %v: results were to wait for %v", behind, got)
		}
	}
}

func TestAJobNobodyHereFitsIsGivenBack(t *testing.T) {
	t.Parallel()
	b := newBench(t, &ledger{}, said{}, lives, func(j *job.Job, _ *workerConfig) { j.Requires.Backends = []string{"docker"} })
	b.Handle(t.Context(), b.delivery())
	if diff := cmp.Diff([]string{"later"}, b.ledger.seen()); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
}

// TestABackendIsToldWhoseAndWhichTemplate: and a job that asks for none of
// these has none.
func TestABackendIsToldWhoseAndWhichTemplate(t *testing.T) {
	t.Parallel()
	for template, labels := range map[string]map[string]string{"": {"zone": "x"}, "data": {"zone": "x", "template.data": "true"}} {
		var got backends.Task
		script := func(_ context.Context, g *fake.Guest) (backends.Outcome, error) {
			got = g.Task
			return backends.Outcome{}, nil
		}
		b := newBench(t, &ledger{}, said{report: &job.Report{Ready: time.Now()}}, script, func(j *job.Job, cfg *workerConfig) {
			j.Tenant, j.Requires.Labels = "acme", labels
			cfg.Sandboxes.Load()[0].Can.Labels = labels
		})
		b.Handle(t.Context(), b.delivery())
		if got.Tenant != "acme" || got.Template != template {
			t.Errorf("got a guest of tenant %q and template %q, want acme and %q", got.Tenant, got.Template, template)
		}
	}
}

// TestTheFactsAreThoseOfTheRun: where a guest had other than what the probe
// found, such as another image, its result says what it had.
func TestTheFactsAreThoseOfTheRun(t *testing.T) {
	t.Parallel()
	for _, own := range []*job.Isolated{nil, {Image: "sha256:1", Network: "guests"}} {
		script := ends(backends.Outcome{Cause: backends.Exited, Isolated: own})
		b := newBench(t, &ledger{}, said{report: &job.Report{Ready: time.Now()}}, script, func(_ *job.Job, cfg *workerConfig) {
			cfg.Sandboxes.Load()[0].Can.Isolated.Kernel = "probe's"
		})
		b.Handle(t.Context(), b.delivery())
		want := job.Isolated{Kernel: "probe's"}
		if own != nil {
			want = *own
		}
		if got := b.ledger.last().Isolation; got.Image != want.Image || got.Network != want.Network || got.Kernel != want.Kernel {
			t.Errorf("got facts %+v, want %+v", got, want)
		}
	}
}

func TestTheWallClockStandsStillWhileACallIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tools := said{before: func(c job.Clock) {
			time.Sleep(10 * time.Second)
			c.Pause()
			c.Pause()
			time.Sleep(100 * time.Second)
			c.Resume()
			time.Sleep(100 * time.Second)
			c.Resume()
		}}
		b := newBench(t, &ledger{}, tools, lives, nil)
		defer heartbeat(t, b)()
		began := time.Now()
		b.Handle(t.Context(), b.delivery())
		if r := b.ledger.last(); r.Status != job.StatusTimeout || r.Usage.Wall.Std() != 30*time.Second {
			t.Errorf("got %s after %s of own time, want timeout after 30s", r.Status, r.Usage.Wall)
		}
		if got := time.Since(began); got != 230*time.Second {
			t.Errorf("took %s in all, want 230s", got)
		}
	})
}

func TestALostLeaseLeavesNoTrace(t *testing.T) {
	for _, tc := range []struct {
		name  string
		beat  func([]job.Holding) ([]job.Heartbeat, error)
		after time.Duration
	}{
		{name: "somebody else holds it", beat: func([]job.Holding) ([]job.Heartbeat, error) { return nil, nil }, after: job.HeartbeatEvery},
		{name: "nobody confirms it", beat: func([]job.Holding) ([]job.Heartbeat, error) { return nil, job.ErrUnreachable }, after: job.Lease - job.LeaseMargin},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, &ledger{beat: tc.beat}, said{}, lives, func(j *job.Job, _ *workerConfig) { j.Limits.Wall = job.Duration(time.Hour) })
				stop := heartbeat(t, b)
				began := time.Now()
				b.Handle(t.Context(), b.delivery())
				if got := time.Since(began); got != tc.after {
					t.Errorf("guest killed after %s, want %s", got, tc.after)
				}
				stop()
				if got := b.ledger.seen(); len(got) != 0 {
					t.Errorf("told %v, want nothing", got)
				}
			})
		})
	}
}

func TestHeartbeatsKeepALongJobAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, &ledger{}, said{}, lives, func(j *job.Job, _ *workerConfig) { j.Limits.Wall = job.Duration(5 * time.Minute) })
		stop := heartbeat(t, b)
		b.Handle(t.Context(), b.delivery())
		stop()
		if got := b.ledger.last().Status; got != job.StatusTimeout {
			t.Errorf("status: got %s, want timeout", got)
		}
		alive := 0
		for _, step := range b.ledger.seen() {
			if step == "alive" {
				alive++
			}
		}
		if alive < 19 || alive > 20 {
			t.Errorf("the queue was told %d times that the job lives, want one per 15 s of 5 min", alive)
		}
	})
}

func TestACancelSeenByAHeartbeatEndsTheGuest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		beat := func(held []job.Holding) ([]job.Heartbeat, error) {
			return []job.Heartbeat{{Holding: held[0], CancelRequested: true}}, nil
		}
		b := newBench(t, &ledger{beat: beat}, said{}, lives, nil)
		stop := heartbeat(t, b)
		b.Handle(t.Context(), b.delivery())
		stop()
		if got := b.ledger.last().Status; got != job.StatusCancelled {
			t.Errorf("status: got %s, want cancelled", got)
		}
	})
}

func TestCancelAndHandBackReachARunningGuest(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(*bench)
		want []string
	}{
		{"cancel", func(b *bench) { b.Cancel(func(j *job.Job) bool { return j.ID == b.job.ID }) }, []string{"finish", "ack", "announce", "announced"}},
		{"hand back", func(b *bench) { b.HandBack() }, []string{"release", "later"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, &ledger{}, said{}, lives, nil)
				go func() {
					time.Sleep(time.Second)
					if b.Running() != 1 {
						t.Errorf("running: got %d, want 1", b.Running())
					}
					tc.do(b)
				}()
				b.Handle(t.Context(), b.delivery())
				if diff := cmp.Diff(tc.want, b.ledger.seen()); diff != "" {
					t.Errorf("steps (-want +got):\n%s", diff)
				}
				if b.Running() != 0 {
					t.Errorf("running: got %d, want 0", b.Running())
				}
			})
		})
	}
}

func TestCommitting(t *testing.T) {
	done := &job.Report{Ready: time.Now(), Done: true, Value: []byte("1")}
	for _, tc := range []struct {
		name   string
		refuse func(n int) error
		want   []string
		status job.Status
	}{
		{name: "the ledger comes back", refuse: func(n int) error {
			if n < 5 {
				return job.ErrUnreachable
			}
			return nil
		}, want: []string{"finish", "ack", "announce", "announced"}, status: job.StatusOK},
		{name: "fenced off", refuse: func(int) error { return job.ErrFenced }, want: nil},
		{name: "a result that cannot be stored is not lost", refuse: func(n int) error {
			if n == 1 {
				return errDatabase
			}
			return nil
		}, want: []string{"finish", "ack", "announce", "announced"}, status: job.StatusInfraError},
		{name: "nothing can be stored", refuse: func(int) error { return errDatabase }, want: nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, &ledger{refuse: tc.refuse}, said{report: done}, ends(backends.Outcome{Cause: backends.Exited}), nil)
				b.Handle(t.Context(), b.delivery())
				if got := b.ledger.seen(); !slices.Equal(got, tc.want) {
					t.Errorf("steps: got %v, want %v", got, tc.want)
				}
				if tc.status != "" && b.ledger.last().Status != tc.status {
					t.Errorf("status: got %s, want %s", b.ledger.last().Status, tc.status)
				}
			})
		})
	}
}

func TestOurFailuresAreRetriedAndThenDead(t *testing.T) {
	t.Parallel()
	for attempt, want := range map[int]string{1: "retry", 2: "retry", 3: "dead"} {
		l := &ledger{claim: job.Claim{Verdict: job.Claimed, Attempt: attempt}}
		b := newBench(t, l, said{report: &job.Report{}}, lost, nil)
		b.Handle(t.Context(), b.delivery())
		if got := l.seen()[0]; got != want {
			t.Errorf("attempt %d: got %s, want %s", attempt, got, want)
		}
		if announced := slices.Contains(l.seen(), "announce"); announced != (want == "dead") {
			t.Errorf("attempt %d: announced %v", attempt, announced)
		}
	}
}
