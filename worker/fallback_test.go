package worker_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"airlock/backends"
	"airlock/backends/fake"
	"airlock/job"
	"airlock/worker"
)

// again delivers the job until it does not fail, up to its attempts, and
// returns where each attempt ran.
func (b *bench) again(t *testing.T) (ran string) {
	t.Helper()
	for range b.job.MaxAttempts {
		b.Handle(t.Context(), b.delivery())
		ran += b.ledger.last().Backend
		if b.ledger.last().Status == job.StatusOK {
			break
		}
		time.Sleep(time.Second)
	}
	synctest.Wait()
	return ran
}

// TestFallback: jobs that ask for no backend go to the next one when the
// preferred one fails, at the latest with their second attempt, and back when
// it works; whatever its probe says of it.
func TestFallback(t *testing.T) {
	for name, tt := range map[string]struct {
		fails  func(*switched)
		reason string
		// lost bounds the attempts of 60 jobs, one a second.
		lost int
	}{
		"its probe fails too": {func(s *switched) { s.away = errAway }, errAway.Error(), 1},
		// Each job has an attempt to lose: the first 5, then one after each
		// rest of 5, 10, 20 and 40 s.
		"its probe goes well": {func(s *switched) { s.broken = errAway }, "5 jobs in a row", 5 + 4},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				script := ends(backends.Outcome{Cause: backends.Exited})
				first, second := newSwitched(script), newSwitched(script)
				r, stop := newRig(t, first, second)
				defer stop()
				report := &job.Report{Ready: time.Now(), Done: true, Value: []byte("1")}
				b := newBench(t, &ledger{}, said{report: report}, nil, func(_ *job.Job, c *worker.Config) {
					c.Sandboxes, c.Ended = r.Sandboxes(), r.Ended
				})
				if got := b.again(t); got != "a" {
					t.Fatalf("before, attempts ran on %q, want a", got)
				}
				first.set(tt.fails)
				lost, shown := 0, false
				for range 60 {
					b.job = other(t, b.job)
					switch got := b.again(t); got {
					case "ab":
						lost++
					case "b":
					default:
						t.Fatalf("attempts ran on %q, want ab or b", got)
					}
					why := r.Unavailable()["a"]
					shown = shown || strings.Contains(why, tt.reason)
					time.Sleep(time.Second)
				}
				synctest.Wait()
				if lost == 0 || lost > tt.lost {
					t.Errorf("%d attempts were lost, want 1 to %d", lost, tt.lost)
				}
				if !shown {
					t.Errorf("the fleet never saw the reason %q", tt.reason)
				}
				if got := strings.Count(r.log.String(), "backend not offered"); got == 0 || got > max(1, tt.lost-4) {
					t.Errorf("the withdrawal was logged %d times, want once for each", got)
				}
				first.set(func(s *switched) { s.away, s.broken = nil, nil })
				time.Sleep(2 * time.Minute)
				if got := b.again(t); got != "a" {
					t.Errorf("after, attempts ran on %q, want a", got)
				}
			})
		})
	}
}

// other is a new job like the old one.
func other(t *testing.T, j *job.Job) *job.Job {
	t.Helper()
	next := *j
	next.ID = job.NewID()
	if err := next.Prepare(time.Now()); err != nil {
		t.Fatal(err)
	}
	return &next
}

// TestAJobThatFitsOneBackendKeepsIt: falling back is for jobs that may, and
// when all have failed a job the first is tried again.
func TestAJobThatFitsOneBackendKeepsIt(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		err      error
		backends []string
		want     string
	}{
		"any":                      {errAway, nil, "a b a b"},
		"one":                      {errAway, []string{"a"}, "a a a a"},
		"a limit that a cannot do": {fmt.Errorf("cpu: %w", backends.ErrUnenforceable), nil, "a b a b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var boxes []worker.Sandbox
			for _, box := range []string{"a", "b"} {
				s := newSwitched(nil)
				s.broken = tt.err
				can, err := s.Probe(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				can.Backend = box
				boxes = append(boxes, worker.Sandbox{Name: box, Backend: s, Can: can})
			}
			b := newBench(t, &ledger{}, said{report: &job.Report{Ready: time.Now()}}, fake.Directed, func(j *job.Job, c *worker.Config) {
				c.Sandboxes, j.Requires.Backends = worker.NewSandboxes(boxes...), tt.backends
			})
			var ran []string
			for range 4 {
				b.Handle(t.Context(), b.delivery())
				ran = append(ran, b.ledger.last().Backend)
			}
			if got := strings.Join(ran, " "); got != tt.want {
				t.Errorf("attempts ran on %q, want %q", got, tt.want)
			}
		})
	}
}
