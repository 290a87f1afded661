//go:build linux

package faults_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"airlock/job"
)

// repeated: where a job's later attempts get the recorded answers of its calls,
// a call of a tool that is not idempotent is made no second time once its
// answer is recorded. It is not asked where workers' clocks are off: which was
// first is told by their clocks.
func (c *checker) repeated(t testing.TB, v *verdict, a asked, attempts map[int][]job.Call) {
	t.Helper()
	if a.job.OnRetry == job.OnRetryRecall || c.p.skewed || len(attempts) < 2 {
		return
	}
	started := c.started(t, a.job.ID)
	for number, calls := range attempts {
		for _, call := range calls {
			if call.Name != spend || call.State != job.CallOK && call.State != job.CallReplayed {
				continue
			}
			for later, others := range attempts {
				if later > number && call.Ended.Before(started[later]) {
					c.again(v, call, others)
				}
			}
		}
	}
}

// again counts calls of a later attempt that the provider saw although their
// answer was recorded.
func (c *checker) again(v *verdict, answered job.Call, calls []job.Call) {
	for _, call := range calls {
		id := fmt.Sprintf("%s.%d.%d", call.Job, call.Attempt, call.Seq)
		same := call.Seq == answered.Seq && call.Name == answered.Name && bytes.Equal(call.Arguments, answered.Arguments)
		if same && c.called[id] > 0 {
			v.twice++
			v.note("the provider saw call %s, whose answer attempt %d had recorded", id, answered.Attempt)
		}
	}
}

func (c *checker) started(t testing.TB, id job.ID) map[int]time.Time {
	t.Helper()
	record, err := c.store.Job(t.Context(), job.DefaultTenant, id)
	if err != nil {
		t.Fatal(err)
	}
	at := map[int]time.Time{}
	for _, a := range record.Attempts {
		at[a.Number] = a.Started
	}
	return at
}
