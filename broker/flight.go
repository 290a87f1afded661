package broker

import (
	"context"
	"errors"
	"time"

	"airlock/broker/policy"
	"airlock/job"

	"go.opentelemetry.io/otel/trace"
)

const (
	// maxShown bounds a name that is no name.
	maxShown = 64
	// maxRefusedArguments bounds the arguments that are kept of a refused
	// call: a guest may send 8 MiB of them with each.
	maxRefusedArguments = 64 << 10
)

// flight is one call from its frame to its recorded end.
type flight struct {
	s        *session
	id       uint64
	ask      *CallTool
	finished bool
	// tool is nil until it is found.
	tool *Tool
	call job.Call
	// span is nil without a tracer.
	span trace.Span
	// rank is among equal calls; key is the Idempotency-Key, once the call is
	// about to be made.
	rank *rank
	key  string
	// metered is set while the call's time counts.
	metered bool
	// rule is the operator's for the call, and turn how the call came to its
	// turn; both are nil without a policy.
	rule *policy.Rule
	turn *turn
}

func (s *session) newFlight(msg *Message, seq int, finished bool) *flight {
	namespace, name := s.policy.meant(msg.Call)
	rule := s.policy.rule(namespace, name)
	kept := rule.Kept(msg.Call.Arguments)
	rank := s.keys.join(s.attempt.Job.ID, namespace, name, msg.Call.Arguments, kept)
	return &flight{s: s, id: msg.ID, ask: msg.Call, finished: finished, rule: rule, rank: rank, call: job.Call{
		Job: s.attempt.Job.ID, Attempt: s.attempt.Number, Seq: seq,
		Arguments: kept, Started: timestamp(),
	}}
}

// run serves the call: ctx is the conversation, calls ends all calls.
func (f *flight) run(ctx, calls context.Context) {
	defer f.rank.leave()
	defer f.measure()
	if f.span = f.s.span.call(&f.call); f.span != nil {
		defer f.endSpan()
	}
	if f.s.past.rules() {
		f.rerun(ctx, calls)
		return
	}
	if no := f.admit(calls); no != nil {
		f.refuse(ctx, no)
		return
	}
	if !f.known(calls) {
		if no, err := f.approve(calls); err != nil {
			f.unrecorded(ctx, calls, err)
			return
		} else if no != nil {
			f.refuse(ctx, no)
			return
		}
	}
	f.rank.await(calls)
	left, no := f.s.letThrough(f)
	if no != nil {
		f.refuse(ctx, no)
		return
	}
	f.carry(ctx, calls, left)
}

// admit holds the call against policy, and finds its tool.
func (f *flight) admit(calls context.Context) *refusal {
	namespace, name, no := f.s.policy.resolve(f.ask)
	f.call.Namespace, f.call.Name = job.Printable(namespace, maxShown), job.Printable(name, maxShown)
	switch {
	case f.finished:
		return refusef(CodeFinished, "the result has been given")
	case no != nil:
		return no
	case f.rule != nil && f.rule.Deny:
		return refusef(CodeDenied, "the operator's policy refuses %s.%s", namespace, name)
	}
	if f.tool, no = f.s.policy.find(calls, namespace, name); no == nil {
		f.call.SchemaDigest = f.tool.Digest
		no = f.checkArguments(calls)
	}
	if calls.Err() != nil {
		no = ending(context.Cause(calls))
	}
	return no
}

func (f *flight) checkArguments(calls context.Context) *refusal {
	select {
	case f.s.b.checks <- struct{}{}:
	case <-calls.Done():
		return ending(context.Cause(calls))
	}
	defer func() { <-f.s.b.checks }()
	if no := f.s.policy.admit(f.tool, f.ask); no != nil || f.rule == nil {
		return no
	}
	return admitted(f.rule, f.tool, f.ask)
}

// letThrough takes one call out of the limits. What it lets through must be
// closed with meter.end.
func (s *session) letThrough(f *flight) (left time.Duration, no *refusal) {
	limits := s.attempt.Job.Limits
	s.mu.Lock()
	defer s.mu.Unlock()
	left, ok := s.meter.begin()
	switch {
	case !ok:
		s.report.ToolLimited = true
		return 0, refusef(CodeToolTimeLimit, "calls have taken %s, which is this job's limit", limits.ToolTime)
	case s.carried >= limits.ToolCalls:
		s.meter.end()
		s.report.ToolLimited = true
		return 0, refusef(CodeToolLimit, "%d calls have been made, which is this job's limit", limits.ToolCalls)
	}
	if no := s.charge(f); no != nil {
		s.meter.end()
		s.report.ToolLimited = true
		return 0, no
	}
	s.carried++
	return left, nil
}

// refuse records a call that is not made, and says so.
func (f *flight) refuse(ctx context.Context, no *refusal) {
	f.fail(job.CallRefused, no)
	if f.call.StartLink == 0 {
		f.call.Arguments = abridged(f.call.Arguments)
	}
	f.record(ctx)
	f.reply(ctx, errorReply(f.id, no, f.tool))
}

// carry makes the call, once it is recorded, unless an earlier attempt did.
func (f *flight) carry(ctx, calls context.Context, left time.Duration) {
	f.metered = true
	if f.replayed(ctx, calls) {
		return
	}
	timeout := f.timeout()
	if f.rule != nil {
		f.turn = &turn{}
		defer f.leave()
		waited, no := f.wait(calls, min(timeout, left))
		if no != nil {
			f.s.giveBack(f)
			f.refuse(ctx, no)
			return
		}
		timeout, left = timeout-waited, left-waited
	}
	f.number()
	if err := f.s.audit.started(calls, &f.call); err != nil {
		f.unrecorded(ctx, calls, err)
		return
	}
	if calls.Err() != nil {
		f.unmade(ctx, ending(context.Cause(calls)))
		return
	}
	if left < timeout {
		timeout = left // which the meter watches
	} else {
		var cancel context.CancelFunc
		calls, cancel = context.WithTimeoutCause(calls, timeout, errCallTimeout)
		defer cancel()
	}
	end := f.exchange(calls, f.request(time.Now().Add(timeout)))
	defer end.forget()
	if end.pending != nil {
		f.leave() // nobody else's turn waits for an answer that comes too late
		f.abandon(ctx, context.Cause(calls), end.pending)
		return
	}
	f.settle(ctx, end)
}

// timeout bounds the call, beside what is left of the job's tool time.
func (f *flight) timeout() time.Duration {
	if f.rule != nil && f.rule.Timeout > 0 {
		return f.rule.Timeout.Std()
	}
	return f.s.b.cfg.CallTimeout
}

// exchanged is what came of asking a provider: its answer with what is wrong
// with it, or where the answer may still come after the call has ended.
type exchanged struct {
	answer  Answer
	no      *refusal
	pending <-chan Answer
	forget  func()
	// unsent: the provider never saw the request.
	unsent bool
}

// exchange gets an answer, from wherever the rule lets it come.
func (f *flight) exchange(calls context.Context, r Request) exchanged {
	if f.rule == nil {
		return f.askOnce(calls, r)
	}
	return f.persevere(calls, r)
}

// askOnce sends the request, and waits for the answer until calls ends.
func (f *flight) askOnce(calls context.Context, r Request) exchanged {
	answers, forget, err := f.s.policy.tools.Call(f.tool, r)
	if err != nil {
		answer := unsent(err)
		return exchanged{answer: answer, no: f.judge(answer), forget: func() {}, unsent: true}
	}
	select {
	case answer := <-answers:
		return exchanged{answer: answer, no: f.judge(answer), forget: forget}
	case <-calls.Done():
		return exchanged{pending: answers, forget: forget}
	}
}

func (f *flight) request(deadline time.Time) Request {
	j := f.s.attempt.Job
	return Request{
		Tenant: j.Tenant, Job: j.ID, Attempt: f.call.Attempt, Seq: f.call.Seq,
		Key: f.key, Deadline: deadline, Arguments: f.ask.Arguments, TraceParent: f.traceParent(),
	}
}

// unrecorded refuses a call whose start could not be recorded. Whether a row
// exists is unknown; if so, the record of the refusal completes it.
func (f *flight) unrecorded(ctx, calls context.Context, err error) {
	if errors.Is(err, job.ErrFenced) {
		f.s.lose(err)
		f.reply(ctx, errorReply(f.id, refusef(CodeAuditFailed, "the job has another worker"), f.tool))
		return
	}
	no := refusef(CodeAuditFailed, "the call could not be recorded, so it was not made")
	no.detail = err.Error()
	if calls.Err() != nil {
		no = ending(context.Cause(calls))
	} else {
		f.s.log.Warn().Err(err).Int(fieldCall, f.call.Seq).Msg("call not recorded")
	}
	f.refuse(ctx, no)
}

// unmade records that a call ended between its record and its request.
func (f *flight) unmade(ctx context.Context, no *refusal) {
	f.fail(job.CallCancelled, no)
	f.record(ctx)
	f.reply(ctx, errorReply(f.id, no, f.tool))
}
