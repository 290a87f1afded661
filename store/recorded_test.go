package store_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"airlock/job"
	"airlock/store"
)

// twoAttempts is a job whose first attempt was lost after a call and whose
// second ended it after two.
func (f *fixture) twoAttempts(change ...func(*job.Job)) *job.Attempt {
	j := newJob(f.t, change...)
	first := f.claim(j, 1, "w1")
	c := callOf(first, 1)
	f.started(first, c)
	f.ended(first, endOf(c, job.CallOK))
	f.loseLease(j.ID)
	second := f.claim(j, 1, "w2")
	for seq, state := range []job.CallState{job.CallReplayed, job.CallRefused} {
		c := callOf(second, seq+1)
		c.StartLink, c.StartHash = 0, nil
		c.Retryable = state == job.CallRefused
		f.ended(second, endOf(c, state))
	}
	r := resultOf(second, job.StatusOK)
	r.AuditHead, r.ToolCalls = "aa", 1
	f.finish(second, r)
	return second
}

func TestRecorded(t *testing.T) {
	t.Parallel()
	f := open(t)
	a := f.twoAttempts()
	id := a.Job.ID
	for _, c := range []struct {
		name string
		q    job.CallQuery
		want string
	}{
		{"before the second", job.CallQuery{Tenant: "acme", Job: id, Before: 2}, `1/1 ok {"sum":3} false; `},
		{"before the third", job.CallQuery{Tenant: "acme", Job: id, Before: 3, Outline: true}, `1/1 ok  false; 2/1 replayed  false; 2/2 refused  true; `},
		{"before the first", job.CallQuery{Tenant: "acme", Job: id, Before: 1}, ""},
		{"of the last", job.CallQuery{Tenant: "acme", Job: id, Last: true}, `2/1 replayed {"sum":3} false; 2/2 refused  true; `},
		{"one", job.CallQuery{Tenant: "acme", Job: id, Attempt: 2, Seq: 1}, `2/1 replayed {"sum":3} false; `},
		{"of another tenant", job.CallQuery{Tenant: "evil", Job: id, Last: true}, ""},
		{"one of another tenant", job.CallQuery{Tenant: "evil", Job: id, Attempt: 2, Seq: 1}, ""},
		{"earlier ones of another tenant", job.CallQuery{Tenant: "evil", Job: id, Before: 9}, ""},
	} {
		got := ""
		err := f.Recorded(t.Context(), c.q, func(call job.Call) error {
			got += fmt.Sprintf("%d/%d %s %s %t; ", call.Attempt, call.Seq, call.State, string(call.Answer), call.Retryable)
			return nil
		})
		if err != nil || got != c.want {
			t.Errorf("%s: got %q and error %v, want %q", c.name, got, err, c.want)
		}
	}
	enough := errors.New("enough")
	wantError(t, "a reader's error", f.Recorded(t.Context(), job.CallQuery{Tenant: "acme", Job: id, Last: true}, func(job.Call) error { return enough }), enough)
}

func TestSpec(t *testing.T) {
	t.Parallel()
	f := open(t)
	a := f.claim(newJob(t, func(j *job.Job) { j.Vars = jsontext.Value(`{"x":1}`) }), 1, "w")
	got, err := f.Spec(t.Context(), "acme", a.Job.ID)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "spec", got, a.Job)
	_, err = f.Spec(t.Context(), "evil", a.Job.ID)
	wantError(t, "another tenant's", err, store.ErrNotFound)
}

func TestAudited(t *testing.T) {
	t.Parallel()
	f := open(t)
	var ids []job.ID
	for range 3 {
		ids = append(ids, f.twoAttempts(inBatch("b")).Job.ID)
	}
	f.claim(newJob(t), 1, "w") // of no batch, and with no end
	f.twoAttempts(inBatch("b"), func(j *job.Job) { j.Tenant = "evil" })

	all, next, err := f.Audited(t.Context(), "acme", job.AuditScope{Batch: "b"}, 2)
	if err != nil || next != ids[1] || len(all) != 4 {
		t.Fatalf("got %+v, next %s, error %v; want two jobs' attempts and the second as next", all, next, err)
	}
	want(t, "a lost attempt", all[0], job.Sealed{Job: ids[0], Attempt: 1, Outcome: "lost", Status: job.StatusInfraError})
	want(t, "the last attempt", all[1], job.Sealed{Job: ids[0], Attempt: 2, Outcome: "finished", Status: job.StatusOK, Head: "aa", ToolCalls: 1})
	all, next, err = f.Audited(t.Context(), "acme", job.AuditScope{Batch: "b", After: next}, 2)
	if err != nil || !next.IsZero() || len(all) != 2 || all[0].Job != ids[2] {
		t.Errorf("second page: got %+v, next %s, error %v; want the third job and no next", all, next, err)
	}
	all, _, err = f.Audited(t.Context(), "acme", job.AuditScope{ID: ids[1]}, 100)
	if err != nil || len(all) != 2 || all[0].Job != ids[1] {
		t.Errorf("one job: got %+v, error %v", all, err)
	}
	all, _, err = f.Audited(t.Context(), "acme", job.AuditScope{Since: time.Now().Add(-time.Hour)}, 100)
	if err != nil || len(all) != 7 {
		t.Errorf("since an hour: got %d attempts, error %v; want 7", len(all), err)
	}
	all, _, err = f.Audited(t.Context(), "acme", job.AuditScope{Since: time.Now().Add(time.Hour)}, 100)
	if err != nil || len(all) != 0 {
		t.Errorf("since later: got %d attempts, error %v; want none", len(all), err)
	}
	for name, scope := range map[string]job.AuditScope{"no batch": {Batch: "none"}, "no job": {ID: job.NewID()}} {
		_, _, err = f.Audited(t.Context(), "acme", scope, 100)
		wantError(t, name, err, store.ErrNotFound)
	}
	_, _, err = f.Audited(t.Context(), "evil", job.AuditScope{ID: ids[0]}, 100)
	wantError(t, "another tenant's job", err, store.ErrNotFound)
}

// Both passes see one moment, whatever is written between them.
func TestReadChain(t *testing.T) {
	t.Parallel()
	f := open(t)
	a := f.claim(newJob(t), 1, "w")
	c := callOf(a, 1)
	f.started(a, c)
	var links, whole []job.Call
	err := f.ReadChain(t.Context(), a.Job.ID, 1, func(c job.Call) error {
		links = append(links, c)
		f.ended(a, endOf(callOf(a, 1), job.CallOK))
		f.started(a, callOf(a, 2))
		return nil
	}, func(c job.Call) error {
		whole = append(whole, c)
		return nil
	})
	if err != nil || len(links) != 1 || len(whole) != 1 {
		t.Fatalf("got %d links, %d calls, error %v; want one of each", len(links), len(whole), err)
	}
	want(t, "state", whole[0].State, job.CallStarted)
	want(t, "arguments of links", len(links[0].Arguments), 0)
	want(t, "arguments", string(whole[0].Arguments), `{"a":1}`)
	want(t, "hash", links[0].StartHash, whole[0].StartHash)
}
