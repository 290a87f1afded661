package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"airlock/broker/provider"
	"airlock/job"
	"airlock/queue"
	"airlock/queue/natstest"
	"airlock/store"
	"airlock/store/storetest"
)

// asked is a whole worker whose operator has tenant a's additions decided by a
// person, with a submitter and an approver, each with its own login.
type asked struct {
	t           *testing.T
	srv         *natstest.Server
	ctx         context.Context
	submitter   *queue.Queue
	approver    *queue.Queue
	postgresURL string
}

const rules = `{"rules": [
	{"tenant": "a", "namespace": "math", "name": "add", "approve": true, "breaker": {"failures": 3}},
	{"tenant": "a", "namespace": "math", "name": "echo", "approve": true, "approve_within": "300ms"}
]}`

func startAsked(t *testing.T) *asked {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute) // the end needs it too
	t.Cleanup(cancel)
	srv := natstest.Start(t)
	a := &asked{t: t, srv: srv, ctx: ctx, postgresURL: storetest.URL(t)}
	file := filepath.Join(t.TempDir(), "policy.json")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := &config{}
	if code, done := parseInto(cfg, "worker", "", []string{
		"--nats", srv.URLOf("worker"), "--postgres", a.postgresURL,
		"--backends", "local", "--allow-no-isolation", "--slots", "4", "--parked", "0", "--policy", file,
	}, os.Stderr, os.Stderr); done {
		t.Fatalf("flags: code %d", code)
	}
	signals, worked := make(chan os.Signal, 1), make(chan error, 1)
	go func() {
		worked <- runPool(ctx, cfg, &strings.Builder{}, zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel), signals)
	}()
	serving, stopServing := context.WithCancel(ctx)
	served := make(chan error, 1)
	nc := srv.ConnectAs("provider-" + natstest.Namespace)
	go func() { served <- provider.Serve(serving, nc, provider.Math()) }()
	t.Cleanup(func() {
		signals <- syscall.SIGTERM
		stopServing()
		if err := errors.Join(<-worked, <-served); err != nil {
			t.Errorf("the end: %v", err)
		}
	})
	a.submitter, a.approver = a.attach("submitter", "a"), a.attach("approver", "a")
	until(ctx, t, "a worker", func() bool { w, err := a.submitter.Workers(ctx); return err == nil && len(w) == 1 })
	return a
}

func (a *asked) attach(role, tenant string) *queue.Queue {
	a.t.Helper()
	nc, err := queue.Connect(a.ctx, a.srv.URLOf(role+"-"+tenant), "test", zerolog.Nop())
	if err != nil {
		a.t.Fatal(err)
	}
	q := attached(a.ctx, a.t, func() (*queue.Queue, error) { return queue.Attach(a.ctx, nc, queue.Config{Tenant: tenant}) })
	a.t.Cleanup(func() { q.Close(); nc.Close() })
	return q
}

// waiting submits a job whose call waits, and returns both.
func (a *asked) waiting(code string) (*job.Job, job.Approval) {
	a.t.Helper()
	j := prepared(a.t, &job.Job{Code: code, Limits: job.Limits{Wall: job.Duration(time.Minute)}})
	if _, err := a.submitter.Submit(a.ctx, j, queue.SubmitOptions{}); err != nil {
		a.t.Fatal(err)
	}
	var found job.Approval
	until(a.ctx, a.t, "a waiting call", func() bool {
		for _, w := range a.list(a.approver, approvalsRequest{}) {
			if w.Job == j.ID {
				found = w
			}
		}
		return found.Job == j.ID
	})
	return j, found
}

func (a *asked) list(q *queue.Queue, r approvalsRequest) []job.Approval {
	a.t.Helper()
	var answer struct {
		Approvals []job.Approval `json:"approvals"`
	}
	if err := q.Ask(a.ctx, "a", "approvals", r, &answer); err != nil {
		a.t.Fatalf("approvals: %v", err)
	}
	return answer.Approvals
}

func (a *asked) decide(q *queue.Queue, d job.Decision) (job.Approval, error) {
	d.By = "ann"
	var now job.Approval
	err := q.Decide(a.ctx, "a", d, &now)
	return now, err
}

func isConflict(err error, text string) bool {
	var remote *queue.RemoteError
	return errors.As(err, &remote) && remote.Code == codeConflict && strings.Contains(remote.Message, text)
}

const adding = "return (await add(a=1, b=2))['sum']"

func TestACallThatAPersonApproves(t *testing.T) {
	t.Parallel()
	a := startAsked(t)
	a.srv.ExpectRefusals() // the submitter's decision
	j, w := a.waiting(adding)
	if w.State != job.ApprovalWaiting || string(w.Arguments) != `{"a":1,"b":2}` || w.Tenant != "a" || w.Expires.Sub(w.Asked) != time.Hour {
		t.Errorf("got %+v, want the call as it waits, for an hour", w)
	}
	// The call's start is recorded when it may leave, and not before.
	var calls struct{ Calls []job.Call }
	if err := a.submitter.Ask(a.ctx, "a", "calls", jobOrBatch{ID: j.ID}, &calls); err != nil || len(calls.Calls) != 0 {
		t.Errorf("got calls %+v and error %v, want none recorded", calls.Calls, err)
	}
	if _, err := a.decide(a.submitter, job.Decision{CallRef: w.CallRef}); !errors.Is(err, queue.ErrNoApprover) {
		t.Errorf("the submitter decided: got %v, want ErrNoApprover", err)
	}
	tail := job.Decision{CallRef: job.CallRef{Attempt: 1, Seq: 1}, Tail: w.Job.String()[24:]}
	if now, err := a.decide(a.approver, tail); err != nil || now.State != job.ApprovalApproved || now.By != "ann" {
		t.Fatalf("got %+v and error %v, want it approved", now, err)
	}
	if r := resultOf(a.ctx, t, a.submitter, j); r.Status != job.StatusOK || string(r.Value) != "3" {
		t.Errorf("got %s, %s, %+v; want 3", r.Status, r.Value, r.Error)
	}
	if _, err := a.decide(a.approver, job.Decision{CallRef: w.CallRef}); err != nil {
		t.Errorf("the same again: got error %v, want none", err)
	}
	if _, err := a.decide(a.approver, job.Decision{CallRef: w.CallRef, Deny: true}); !isConflict(err, "ann has approved it") {
		t.Errorf("otherwise: got error %v, want a conflict", err)
	}
	if list := a.list(a.submitter, approvalsRequest{}); len(list) != 0 {
		t.Errorf("got %+v, want nothing that waits", list)
	}
	if one := a.list(a.submitter, approvalsRequest{Call: &tail}); len(one) != 1 || one[0].State != job.ApprovalApproved {
		t.Errorf("got %+v, want the one request", one)
	}
}

func TestACallThatAPersonDenies(t *testing.T) {
	t.Parallel()
	a := startAsked(t)
	j, w := a.waiting("try:\n    await add(a=1, b=2)\nexcept ToolError as e:\n    return [e.code, e.message]")
	if _, err := a.decide(a.approver, job.Decision{CallRef: w.CallRef, Deny: true, Reason: "no\x00 \x1b"}); err != nil {
		t.Fatal(err)
	}
	r := resultOf(a.ctx, t, a.submitter, j)
	if want := `["approval_denied","a person denied this call: no\\x00 \\x1b"]`; string(r.Value) != want {
		t.Errorf("got %s, %s, %+v; want %s", r.Status, r.Value, r.Error, want)
	}
	if r := ran(a.ctx, t, a.submitter, &job.Job{Code: "await echo(text=1)"}); r.Error == nil || !strings.HasPrefix(r.Error.Message, "approval_expired") {
		t.Errorf("nobody decided: got %+v, want approval_expired", r.Error)
	}
}

func TestACallWhoseJobEndsFirst(t *testing.T) {
	t.Parallel()
	a := startAsked(t)
	j, w := a.waiting(adding)
	if err := a.submitter.Cancel(a.ctx, "a", queue.CancelTarget{Job: j.ID}); err != nil {
		t.Fatal(err)
	}
	if r := resultOf(a.ctx, t, a.submitter, j); r.Status != job.StatusCancelled {
		t.Errorf("got %s, want cancelled", r.Status)
	}
	if _, err := a.decide(a.approver, job.Decision{CallRef: w.CallRef}); !isConflict(err, "the attempt has ended") {
		t.Errorf("got error %v, want a conflict that says so", err)
	}
	if all := a.list(a.approver, approvalsRequest{All: true}); len(all) != 1 || all[0].State != job.ApprovalGone || all[0].Decided.IsZero() {
		t.Errorf("got %+v, want one that is gone", all)
	}
}

// The message that something was decided may get lost.
func TestADecisionThatNobodyAnnounces(t *testing.T) {
	t.Parallel()
	a := startAsked(t)
	j, w := a.waiting(adding)
	s, err := store.Open(a.ctx, store.Config{URL: a.postgresURL, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Decide(a.ctx, "a", job.Decision{CallRef: w.CallRef, By: "ann"}); err != nil {
		t.Fatal(err)
	}
	if r := resultOf(a.ctx, t, a.submitter, j); string(r.Value) != "3" {
		t.Errorf("got %s, %s, %+v; want 3", r.Status, r.Value, r.Error)
	}
}

func TestToolsVerb(t *testing.T) {
	t.Parallel()
	a := startAsked(t)
	var answer job.ToolList
	until(a.ctx, t, "the tools", func() bool {
		answer = job.ToolList{}
		err := a.submitter.Ask(a.ctx, "a", "tools", job.ToolsQuery{Schemas: true}, &answer)
		return err == nil && len(answer.Tools) == 2
	})
	add := answer.Tools[0]
	if add.Namespace != "math" || add.Name != "add" || add.Providers != 1 || !add.Approval || len(add.InputSchema) == 0 || add.Calls != 0 {
		t.Errorf("got %+v, want math.add, with one provider, which asks", add)
	}
	if add.Breaker != "closed" || answer.Tools[1].Breaker != "" {
		t.Errorf("got breakers %q and %q, want closed, and none", add.Breaker, answer.Tools[1].Breaker)
	}
	// The rules allow nobody else anything.
	var others job.ToolList
	if err := a.attach("submitter", "b").Ask(a.ctx, "b", "tools", job.ToolsQuery{}, &others); err != nil || len(others.Tools) != 0 {
		t.Errorf("tenant b: got %+v and error %v, want no tool", others.Tools, err)
	}
	ran(a.ctx, t, a.submitter, &job.Job{Code: "try:\n    await echo(text=1)\nexcept ToolError: pass"})
	j, w := a.waiting(adding)
	if _, err := a.decide(a.approver, job.Decision{CallRef: w.CallRef}); err != nil {
		t.Fatal(err)
	}
	resultOf(a.ctx, t, a.submitter, j)
	if err := a.submitter.Ask(a.ctx, "a", "tools", job.ToolsQuery{Namespace: "math"}, &answer); err != nil {
		t.Fatal(err)
	}
	add, echo := answer.Tools[0], answer.Tools[1]
	if add.Calls != 1 || add.Errors != 0 || add.P50 <= 0 || add.P99 < add.P50 || add.P99.Std() > time.Minute || len(add.InputSchema) != 0 {
		t.Errorf("got %+v, want one call whose wait for a person does not count", add)
	}
	if echo.Calls != 0 {
		t.Errorf("got %+v, want no call that left", echo)
	}
	if err := a.submitter.Ask(a.ctx, "a", "tools", job.ToolsQuery{Namespace: "math", Since: time.Now().Add(time.Minute)}, &answer); err != nil || answer.Tools[0].Calls != 0 {
		t.Errorf("got %+v and error %v, want no calls of later", answer.Tools, err)
	}
}
