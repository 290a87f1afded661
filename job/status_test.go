package job_test

import (
	"testing"

	"airlock/job"
)

func TestStatusIsAClosedSet(t *testing.T) {
	t.Parallel()
	seen := map[job.Status]bool{}
	for _, s := range job.Statuses() {
		var got job.Status
		if err := got.UnmarshalText([]byte(s)); err != nil || got != s || seen[s] {
			t.Errorf("%s: got %q and error %v, seen before: %v", s, got, err, seen[s])
		}
		seen[s] = true
	}
	for _, bad := range []string{"", "OK", "ok ", "success"} {
		var got job.Status
		if err := got.UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%q: got it accepted", bad)
		}
	}
}

func TestStatesThatEnd(t *testing.T) {
	t.Parallel()
	for state, want := range map[job.State]bool{
		job.StateQueued: false, job.StateRunning: false, job.StateRetryWait: false, job.StateFinished: true, job.StateDead: true, "": false,
	} {
		if got := state.Ended(); got != want {
			t.Errorf("%q ended: got %v, want %v", state, got, want)
		}
	}
}
