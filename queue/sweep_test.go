package queue

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"airlock/job"
)

// TestSweepShares checks that the shares are exact and evenly spread, whichever
// priorities have jobs.
func TestSweepShares(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		ready eager
		round int // how many are served until the pattern repeats
		want  [len(weights)]int
		// gap is the longest a priority waits between two turns.
		gap [len(weights)]int
	}{
		{"all", eager{true, true, true}, 13, [3]int{8, 4, 1}, [3]int{2, 4, 13}},
		{"high and low", eager{true, false, true}, 9, [3]int{8, 0, 1}, [3]int{2, 0, 9}},
		{"normal and low", eager{false, true, true}, 5, [3]int{0, 4, 1}, [3]int{0, 2, 5}},
		{"low alone", eager{false, false, true}, 1, [3]int{0, 0, 1}, [3]int{0, 0, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var s sweep
			var last [len(weights)]int
			for round := range 100 {
				var got [len(weights)]int
				for turn := range c.round {
					p, ok := s.next(c.ready)
					if !ok || !c.ready[p] {
						t.Fatalf("got priority %d, %v; want one that is ready", p, ok)
					}
					s.served(p, c.ready)
					got[p]++
					now := round*c.round + turn + 1
					if gap := now - last[p]; gap > c.gap[p] {
						t.Errorf("priority %d waited %d turns, want at most %d", p, gap, c.gap[p])
					}
					last[p] = now
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Fatalf("shares in round %d (-want +got):\n%s", round, diff)
				}
			}
		})
	}
}

func TestSweepChargesNothingForEmptyLanes(t *testing.T) {
	t.Parallel()
	var s sweep
	if _, ok := s.next(eager{}); ok {
		t.Error("got a priority though none is ready")
	}
	// High looks ready again and again but has nothing, as with bells that
	// another worker answered first.
	ready, served := eager{true, true, true}, [len(weights)]int{}
	for range 50 {
		left := ready
		for {
			p, ok := s.next(left)
			if !ok {
				t.Fatal("nothing was served")
			}
			if p == 0 {
				left[p] = false
				continue
			}
			s.served(p, left)
			served[p]++
			break
		}
	}
	if want := [3]int{0, 40, 10}; served != want {
		t.Errorf("got served %v, want %v", served, want)
	}
}

// A priority must not save up turns while it has no jobs and then shut the
// others out.
func TestSweepCreditIsBounded(t *testing.T) {
	t.Parallel()
	var s sweep
	for i := range 10_000 {
		ready := eager{i%2 == 0, i%3 == 0, i%5 != 0}
		if p, ok := s.next(ready); ok {
			s.served(p, ready)
		}
		for p, credit := range s.credit {
			if credit < -26 || credit > 26 {
				t.Fatalf("credit of priority %d is %d after %d turns, want within two rounds", p, credit, i)
			}
		}
	}
}

func TestWeightsCoverAllPriorities(t *testing.T) {
	t.Parallel()
	if len(job.Priorities()) != len(weights) {
		t.Fatalf("got %d weights, want %d", len(weights), len(job.Priorities()))
	}
	for i, p := range job.Priorities() {
		if priorityIndex(p) != i {
			t.Errorf("got index %d of %s, want %d", priorityIndex(p), p, i)
		}
	}
}
