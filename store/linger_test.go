package store_test

import (
	"testing"
	"time"

	"airlock/job"
)

// TestResultsThatMayWaitShareATransaction: until one comes that may not, there
// are enough, the time is over, or the store is closed.
func TestResultsThatMayWaitShareATransaction(t *testing.T) {
	t.Parallel()
	const long = time.Hour
	for name, c := range map[string]struct {
		linger []time.Duration
		close  bool
	}{
		"one is in a hurry":   {linger: []time.Duration{long, long, 0}},
		"one waits for less":  {linger: []time.Duration{long, 50 * time.Millisecond}},
		"one alone":           {linger: []time.Duration{50 * time.Millisecond}},
		"there are enough":    {linger: []time.Duration{long, long, long, long, long, long, long, long}},
		"the store is closed": {linger: []time.Duration{long, long}, close: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := open(t)
			ended := make(chan error, len(c.linger))
			var ids [][16]byte
			for i, linger := range c.linger {
				a := f.claim(newJob(t), 1, "w")
				ids = append(ids, [16]byte(a.Job.ID))
				go func() { ended <- f.Finish(t.Context(), a, resultOf(a, job.StatusOK), linger) }()
				if i+1 < len(c.linger) || c.close {
					f.untilLingering(i + 1)
				}
			}
			if c.close {
				f.Close()
			}
			for range c.linger {
				if err := <-ended; err != nil {
					t.Errorf("finish: %v", err)
				}
			}
			if c.close {
				return
			}
			const together = `SELECT count(*) FROM jobs WHERE id = ANY($1::uuid[]) AND state = 'finished' GROUP BY xmin::text`
			want(t, "results of one transaction", value[int](f, together, ids), len(ids))
		})
	}
}

// untilLingering waits until so many results wait for others.
func (f *fixture) untilLingering(n int) {
	f.t.Helper()
	for f.Lingering() != n {
		if f.t.Context().Err() != nil {
			f.t.Fatalf("%d results wait for others, want %d", f.Lingering(), n)
		}
		time.Sleep(time.Millisecond)
	}
}
