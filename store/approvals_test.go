package store_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"airlock/job"
	"airlock/store"
)

// asks has a call of a wait for a person.
func (f *fixture) asks(a *job.Attempt, seq int, within time.Duration) job.CallRef {
	f.t.Helper()
	if err := f.AskApproval(f.t.Context(), a, callOf(a, seq), within); err != nil {
		f.t.Fatalf("ask: %v", err)
	}
	return job.CallRef{Job: a.Job.ID, Attempt: a.Number, Seq: seq}
}

func (f *fixture) approval(ref job.CallRef) job.Approval {
	f.t.Helper()
	a, err := f.Approval(f.t.Context(), "acme", job.Decision{CallRef: ref})
	if err != nil {
		f.t.Fatalf("approval: %v", err)
	}
	return a
}

func yes(ref job.CallRef) job.Decision { return job.Decision{CallRef: ref, By: "ann"} }

func TestDecide(t *testing.T) {
	t.Parallel()
	f := open(t)
	ctx := t.Context()
	a := f.claim(newJob(t), 1, "w")
	ref := f.asks(a, 1, time.Hour)
	f.asks(a, 1, time.Minute) // again is harmless, and changes nothing
	first := f.approval(ref)
	c := callOf(a, 1)
	if first.State != job.ApprovalWaiting || first.Expires.Sub(first.Asked) != time.Hour || string(first.Arguments) != string(c.Arguments) || first.Tenant != "acme" {
		t.Errorf("got %+v, want it to wait for an hour", first)
	}
	if got := only(f.Decisions(ctx, []job.CallRef{ref})); len(got) != 0 {
		t.Errorf("got decisions %+v before there are any", got)
	}
	if _, err := f.Decide(ctx, "other", yes(ref)); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("another tenant: got error %v, want ErrNotFound", err)
	}
	if _, err := f.Approval(ctx, "other", yes(ref)); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("another tenant reads: got error %v, want ErrNotFound", err)
	}
	short := job.Decision{CallRef: job.CallRef{Attempt: 1, Seq: 1}, Tail: ref.Job.String()[24:], By: "bob\x00", Deny: true, Reason: "no"}
	denied := only(f.Decide(ctx, "acme", short))
	if denied.State != job.ApprovalDenied || denied.By != `bob\x00` || denied.Reason != "no" || denied.Decided.IsZero() || denied.CallRef != ref {
		t.Errorf("got %+v, want it denied by bob", denied)
	}
	if again := only(f.Decide(ctx, "acme", short)); again.Decided != denied.Decided {
		t.Errorf("again: got %+v, want the first decision", again)
	}
	if _, err := f.Decide(ctx, "acme", yes(ref)); !errors.Is(err, store.ErrDecided) || !strings.Contains(err.Error(), "has denied it") {
		t.Errorf("otherwise: got error %v, want ErrDecided with who and what", err)
	}
	if err := f.ApprovalGone(ctx, ref); err != nil || f.approval(ref).State != job.ApprovalDenied {
		t.Errorf("got %v and %+v, want the decision to stay", err, f.approval(ref))
	}
	if got := only(f.Decisions(ctx, []job.CallRef{ref})); len(got) != 1 || got[0].State != job.ApprovalDenied {
		t.Errorf("got decisions %+v, want the denial", got)
	}
}

func TestARequestExpires(t *testing.T) {
	t.Parallel()
	f := open(t)
	a := f.claim(newJob(t), 1, "w")
	ref := f.asks(a, 1, time.Millisecond)
	eventually(t, "the end of the wait", func() bool { return f.approval(ref).State == job.ApprovalExpired })
	if _, err := f.Decide(t.Context(), "acme", yes(ref)); !errors.Is(err, store.ErrDecided) || !strings.Contains(err.Error(), "nobody decided before") {
		t.Errorf("got error %v, want ErrDecided", err)
	}
	if list := only(f.Approvals(t.Context(), "acme", false, 10)); len(list) != 0 {
		t.Errorf("got %+v, want nothing that waits", list)
	}
	if got := only(f.Decisions(t.Context(), []job.CallRef{ref})); len(got) != 1 || got[0].State != job.ApprovalExpired || got[0].Decided.IsZero() {
		t.Errorf("got %+v, want it expired, and that written down", got)
	}
}

// What a dead attempt asked for is gone at once for who lists, and is written
// down by the reconciler.
func TestRequestsOfAnAttemptThatHasEnded(t *testing.T) {
	t.Parallel()
	f := open(t)
	ctx := t.Context()
	j := newJob(t, tries(3))
	a := f.claim(j, 1, "w")
	ref := f.asks(a, 1, time.Hour)
	f.loseLease(j.ID)
	b := f.claim(j, 1, "v")
	if got := f.approval(ref).State; got != job.ApprovalGone {
		t.Errorf("got state %s, want gone", got)
	}
	if _, err := f.Decide(ctx, "acme", yes(ref)); !errors.Is(err, store.ErrDecided) || !strings.Contains(err.Error(), "the attempt has ended") {
		t.Errorf("got error %v, want ErrDecided that says so", err)
	}
	if err := f.AskApproval(ctx, a, callOf(a, 2), time.Hour); !errors.Is(err, job.ErrFenced) {
		t.Errorf("the dead attempt asks: got error %v, want ErrFenced", err)
	}
	again := f.asks(b, 1, time.Hour) // the next attempt asks again
	if list := only(f.Approvals(ctx, "acme", false, 10)); len(list) != 1 || list[0].CallRef != again {
		t.Errorf("got %+v, want the new attempt's alone", list)
	}
	for range 2 {
		if _, err := f.Sweep(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if got := f.approval(ref); got.State != job.ApprovalGone || got.Decided.IsZero() {
		t.Errorf("got %+v, want it settled", got)
	}
	if got := f.approval(again); got.State != job.ApprovalWaiting {
		t.Errorf("got %+v, want it to wait on", got)
	}
	if all := only(f.Approvals(ctx, "acme", true, 10)); len(all) != 2 || all[0].CallRef != again {
		t.Errorf("got %+v, want both, the newest first", all)
	}
	// One asked just before the two had the same end of their ids.
	f.exec(`INSERT INTO approvals (job, attempt, seq, tenant, namespace, name, asked_at, expires_at)
	    SELECT overlay(job::text placing '00000000' from 1 for 8)::uuid, 2, 1, tenant, namespace, name, now(), now() FROM approvals WHERE attempt = 2`)
	tail := job.Decision{CallRef: job.CallRef{Attempt: 2, Seq: 1}, Tail: ref.Job.String()[24:], By: "ann"}
	if _, err := f.Decide(ctx, "acme", tail); !errors.Is(err, store.ErrAmbiguous) {
		t.Errorf("two with one tail: got error %v, want ErrAmbiguous", err)
	}
}

func TestRequestsAreForgottenWithTheirJobs(t *testing.T) {
	t.Parallel()
	f := open(t)
	a := f.claim(newJob(t), 1, "w")
	ref := f.asks(a, 1, time.Hour)
	f.exec(`INSERT INTO approvals (job, attempt, seq, tenant, namespace, name, asked_at, expires_at, decision, decided_at)
	    VALUES ('01980000-0000-7000-8000-000000000000', 1, 1, 'acme', 'n', 't', now(), now(), 'gone', now() - interval '2 hours')`)
	if _, err := f.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if all := only(f.Approvals(t.Context(), "acme", true, 10)); len(all) != 1 || all[0].CallRef != ref {
		t.Errorf("got %+v, want only that of a job that is there", all)
	}
}

func TestToolStats(t *testing.T) {
	t.Parallel()
	f := open(t)
	a := f.claim(newJob(t), 1, "w")
	other := f.claim(newJob(t, func(j *job.Job) { j.Tenant = "other" }), 1, "w")
	states := []job.CallState{job.CallOK, job.CallOK, job.CallOK, job.CallFailed, job.CallCancelled}
	for i, state := range states {
		c := callOf(a, i+1)
		f.started(a, c)
		end := endOf(c, state)
		end.Ended = c.Started.Add(time.Duration(i+1) * time.Second)
		f.ended(a, end)
	}
	f.ended(a, endOf(callOf(a, len(states)+1), job.CallRefused))
	f.started(a, callOf(a, len(states)+2)) // is still open
	f.started(other, callOf(other, 1))
	f.ended(other, endOf(callOf(other, 1), job.CallFailed))
	c := callOf(a, 1)
	want(t, "stats", only(f.ToolStats(t.Context(), "acme", "", time.Now().Add(-time.Hour))),
		[]store.ToolStat{{Namespace: c.Namespace, Name: c.Name, Calls: 4, Errors: 1, P50: 2500 * time.Millisecond, P99: 3970 * time.Millisecond}})
	for name, got := range map[string][]store.ToolStat{
		"another namespace": only(f.ToolStats(t.Context(), "acme", "other", time.Now().Add(-time.Hour))),
		"a later time":      only(f.ToolStats(t.Context(), "acme", "", time.Now().Add(time.Hour))),
	} {
		if len(got) != 0 {
			t.Errorf("%s: got %+v, want nothing", name, got)
		}
	}
}
