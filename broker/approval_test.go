package broker_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"airlock/broker"
	"airlock/broker/policy"
	"airlock/job"
)

// people decide about calls as a test tells them to.
type people struct {
	asked   chan job.Call
	decide  chan job.Approval
	err     error
	within  atomic.Int64
	waiting atomic.Int64
}

func newPeople() *people {
	return &people{asked: make(chan job.Call, 1000), decide: make(chan job.Approval)}
}

func (p *people) Ask(ctx context.Context, _ *job.Attempt, c job.Call, within time.Duration) (job.Approval, error) {
	if p.err != nil {
		return job.Approval{}, p.err
	}
	p.within.Store(int64(within))
	p.waiting.Add(1)
	defer p.waiting.Add(-1)
	p.asked <- c
	select {
	case d := <-p.decide:
		return d, nil
	case <-ctx.Done():
		return job.Approval{}, context.Cause(ctx)
	}
}

// adds has additions approved; echoes need not be.
func adds() *policy.Policy {
	return &policy.Policy{Rules: []policy.Rule{
		{Tenant: policy.Any, Namespace: "math", Name: "add", Approve: true, Redact: []string{"secret"}, Calls: 2},
		{Tenant: policy.Any, Namespace: policy.Any, Name: policy.Any},
	}}
}

func asking(t *testing.T, edits ...func(*job.Job)) (*bench, *people) {
	t.Helper()
	p := newPeople()
	b := begin(t, setup{edits: edits, cfg: broker.Config{Policy: adds, Approvals: p}})
	b.Hello()
	return b, p
}

const sum = `{"a":1,"b":2}`

func TestAnApprovedCallLeavesAndADeniedOneDoesNot(t *testing.T) {
	t.Parallel()
	b, p := asking(t)
	b.Call(1, "math.add", sum)
	asked := <-p.asked
	if asked.Seq != 1 || asked.Namespace != "math" || asked.Name != "add" || string(asked.Arguments) != sum || asked.State != "" {
		t.Errorf("got request %+v, want call 1 as it is, not yet started", asked)
	}
	if got := time.Duration(p.within.Load()); got != broker.DefaultApproveWithin {
		t.Errorf("got %s to decide in, want %s", got, broker.DefaultApproveWithin)
	}
	// What needs nobody goes on meanwhile.
	b.Call(2, "math.echo", `{"text":1}`)
	b.Expect(`{"id":2,"ok":true,"value":1}`)
	if calls := b.audit.Calls(); len(calls) != 1 || len(b.tools.Requests()) != 1 {
		t.Errorf("got %+v recorded before the decision, want the echo alone", calls)
	}
	before := time.Now()
	p.decide <- job.Approval{State: job.ApprovalApproved, By: "ann"}
	b.Expect(`{"id":1,"ok":true,"value":{"sum":3}}`)

	b.Call(3, "math.add", sum)
	<-p.asked
	p.decide <- job.Approval{State: job.ApprovalDenied, By: "ann", Reason: "not \x1b today"}
	b.ExpectCode(3, broker.CodeApprovalDenied)
	b.Call(4, "math.add", sum)
	<-p.asked
	p.decide <- job.Approval{State: job.ApprovalExpired}
	b.ExpectCode(4, broker.CodeApprovalExpired)

	report := b.end(t)
	if report.ToolCalls != 2 || len(b.tools.Requests()) != 2 {
		t.Errorf("got %d calls and %d requests, want 2 of each", report.ToolCalls, len(b.tools.Requests()))
	}
	calls := b.audit.Calls()
	if calls[0].State != job.CallOK || calls[0].Started.Before(before.Add(-time.Millisecond)) {
		t.Errorf("got %+v, want a call that started when it was approved", calls[0])
	}
	denied := calls[2]
	if denied.State != job.CallRefused || denied.StartLink != 0 || denied.Message != `a person denied this call: not \x1b today` || denied.Detail != "denied by ann" {
		t.Errorf("got %+v, want a refusal that says who and why", denied)
	}
}

// A call that would be refused anyway troubles nobody.
func TestNobodyIsAskedAboutWhatIsRefusedAnyway(t *testing.T) {
	t.Parallel()
	b, p := asking(t, func(j *job.Job) { j.Limits.ToolCalls = 2 })
	b.Call(1, "math.add", `{"a":1}`)
	b.ExpectCode(1, broker.CodeBadArguments)
	b.Call(2, "other.add", sum)
	b.ExpectCode(2, broker.CodeNotGranted)
	for id := 3; id <= 4; id++ {
		b.Call(id, "math.add", sum)
		<-p.asked
		p.decide <- job.Approval{State: job.ApprovalDenied, By: "ann"}
		b.ExpectCode(id, broker.CodeApprovalDenied)
	}
	b.Call(5, "math.add", sum) // people are asked as often as the job may call
	b.ExpectCode(5, broker.CodeToolLimit)
	if report := b.end(t); !report.ToolLimited || len(p.asked) != 0 {
		t.Errorf("got limited %v, %d more requests; want true and none", report.ToolLimited, len(p.asked))
	}
}

func TestTheEndOfTheJobEndsTheWait(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		end  func(b *bench)
		want error
	}{
		{"result", func(b *bench) { b.Finish(9, "null") }, nil},
		{"cancel", func(b *bench) { b.Cancel(job.ErrCancelled) }, nil},
		{"fenced", func(b *bench) { b.Cancel(job.ErrLeaseLost) }, job.ErrFenced},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b, p := asking(t)
			b.Call(1, "math.add", sum)
			<-p.asked
			if tt.name == "result" {
				b.Send(`{"id":9,"method":"result","params":{"value":null}}`)
				b.ExpectCode(1, broker.CodeCancelled)
				b.Expect(`{"id":9,"ok":true}`)
				b.Close()
			} else {
				tt.end(b)
			}
			report, err := b.Wait()
			if !errors.Is(err, tt.want) {
				t.Fatalf("got error %v, want %v", err, tt.want)
			}
			if p.waiting.Load() != 0 || len(b.tools.Requests()) != 0 {
				t.Errorf("got %d waiting and %d sent, want none", p.waiting.Load(), len(b.tools.Requests()))
			}
			if tt.want != nil {
				return
			}
			b.verify(t, report)
			if calls := b.audit.Calls(); len(calls) != 1 || calls[0].State != job.CallRefused || calls[0].Code != "cancelled" {
				t.Errorf("got %+v, want one refused call", calls)
			}
		})
	}
}

// The wait costs neither the guest's time nor that of its calls.
func TestTheClocksStandStillWhileAPersonThinks(t *testing.T) {
	t.Parallel()
	var open atomic.Int64
	p := newPeople()
	const limit, thinks = 10 * time.Second, 11 * time.Second // the call itself must end within the limit
	b := begin(t, setup{
		cfg:   broker.Config{Policy: adds, Approvals: p},
		edits: []func(*job.Job){func(j *job.Job) { j.Limits.ToolTime = job.Duration(limit) }},
		clock: job.Clock{Pause: func() { open.Add(1) }, Resume: func() { open.Add(-1) }},
	})
	b.Hello()
	b.Call(1, "math.add", sum)
	<-p.asked
	if open.Load() != 1 {
		t.Errorf("got %d pauses, want the guest's clock to stand", open.Load())
	}
	thinking := time.NewTimer(thinks)
	<-thinking.C
	p.decide <- job.Approval{State: job.ApprovalApproved}
	b.Expect(`{"id":1,"ok":true,"value":{"sum":3}}`)
	if report := b.end(t); report.ToolWait >= thinks || open.Load() != 0 {
		t.Errorf("got tool time %s and %d pauses, want less than %s and none", report.ToolWait, open.Load(), thinks)
	}
}

func TestARequestThatCannotBeRecorded(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		people broker.Approvals
		code   broker.Code
		want   error
	}{
		{"lost", &people{err: errors.New("secret")}, broker.CodeAuditFailed, nil},
		{"nobody", nil, broker.CodeApprovalDenied, nil},
		{"fenced", &people{err: job.ErrFenced}, broker.CodeAuditFailed, job.ErrFenced},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := begin(t, setup{cfg: broker.Config{Policy: adds, Approvals: tt.people}})
			b.Hello()
			b.Call(1, "math.add", sum)
			if tt.want != nil {
				if _, err := b.Wait(); !errors.Is(err, tt.want) {
					t.Errorf("got error %v, want %v", err, tt.want)
				}
				return
			}
			if got := b.Recv(); !strings.Contains(got, string(tt.code)) || strings.Contains(got, "secret") {
				t.Errorf("got %s, want %s without the reason", got, tt.code)
			}
			b.end(t)
			if len(b.tools.Requests()) != 0 {
				t.Error("the call was made")
			}
		})
	}
}
