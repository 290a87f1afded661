package store_test

import (
	"testing"
	"time"

	"airlock/job"
	"airlock/store"
)

// TestAnEndWaitsForThoseBefore: a transaction whose writer stood still before its
// first write has an earlier time than ends that are committed meanwhile.
func TestAnEndWaitsForThoseBefore(t *testing.T) {
	t.Parallel()
	f := open(t)
	a := f.claim(newJob(t, inBatch("b")), 1, "w1")
	ends := func() int {
		t.Helper()
		got, err := f.BatchEnds(t.Context(), "acme", "b", store.EndMark{}, false, 10)
		if err != nil {
			t.Fatal(err)
		}
		return len(got)
	}
	age := func() float64 {
		return value[float64](f, `SELECT extract(epoch FROM clock_timestamp() - now())::float8`)
	}
	f.exec(`BEGIN`)
	f.finish(a, resultOf(a, job.StatusOK))
	for age() < 2 { // an end of a second ago would be shown by now
		<-time.After(100 * time.Millisecond)
	}
	// On a machine that stood still for long there is nothing to see.
	if got := ends(); got != 0 && age() < 10 {
		t.Errorf("got %d ends while a transaction goes on that began before, want none", got)
	}
	f.exec(`ROLLBACK`)
	eventually(t, "the end", func() bool { return ends() == 1 })
}
