package broker

import (
	"context"
	"errors"
	"time"

	"airlock/job"
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
	// metered is set while the call's time counts.
	metered bool
}

func (s *session) newFlight(msg *Message, seq int, finished bool) *flight {
	return &flight{s: s, id: msg.ID, ask: msg.Call, finished: finished, call: job.Call{
		Job: s.attempt.Job.ID, Attempt: s.attempt.Number, Seq: seq,
		Arguments: msg.Call.Arguments, Started: timestamp(),
	}}
}

// run serves the call: ctx is the conversation, calls ends all calls.
func (f *flight) run(ctx, calls context.Context) {
	if no := f.admit(calls); no != nil {
		f.refuse(ctx, no)
		return
	}
	left, no := f.s.letThrough()
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
	if f.finished {
		return refusef(CodeFinished, "the result has been given")
	}
	if no != nil {
		return no
	}
	if f.tool, no = f.s.policy.find(calls, namespace, name); no == nil {
		f.call.SchemaDigest = f.tool.Digest
		no = f.s.checkArguments(calls, f.tool, f.ask)
	}
	if calls.Err() != nil {
		no = ending(context.Cause(calls))
	}
	return no
}

func (s *session) checkArguments(calls context.Context, tool *Tool, ask *CallTool) *refusal {
	select {
	case s.b.checks <- struct{}{}:
	case <-calls.Done():
		return ending(context.Cause(calls))
	}
	defer func() { <-s.b.checks }()
	return s.policy.admit(tool, ask)
}

// letThrough takes one call out of the limits. What it lets through must be
// closed with meter.end.
func (s *session) letThrough() (left time.Duration, no *refusal) {
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

// carry makes the call, once it is recorded.
func (f *flight) carry(ctx, calls context.Context, left time.Duration) {
	f.metered = true
	if err := f.s.audit.started(calls, &f.call); err != nil {
		f.unrecorded(ctx, calls, err)
		return
	}
	if calls.Err() != nil {
		f.unmade(ctx, ending(context.Cause(calls)))
		return
	}
	timeout := f.s.b.cfg.CallTimeout
	if left < timeout {
		timeout = left // which the meter watches
	} else {
		var cancel context.CancelFunc
		calls, cancel = context.WithTimeoutCause(calls, timeout, errCallTimeout)
		defer cancel()
	}
	answers, forget, err := f.s.policy.tools.Call(f.tool, f.request(time.Now().Add(timeout)))
	if err != nil {
		f.settle(ctx, unsent(err))
		return
	}
	defer forget()
	select {
	case answer := <-answers:
		f.settle(ctx, answer)
	case <-calls.Done():
		f.abandon(ctx, context.Cause(calls), answers)
	}
}

func (f *flight) request(deadline time.Time) Request {
	j := f.s.attempt.Job
	return Request{
		Tenant: j.Tenant, Job: j.ID, Attempt: f.call.Attempt, Seq: f.call.Seq,
		Key:      f.s.keys.next(f.call.Namespace, f.call.Name, f.ask.Arguments),
		Deadline: deadline, Arguments: f.ask.Arguments,
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
