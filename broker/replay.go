package broker

import (
	"context"
	"fmt"

	"airlock/job"

	"github.com/go-json-experiment/json/jsontext"
)

// What is told of a call whose answer cannot be given again.
const notRecorded = "this call was made before, and its answer was not kept"

// number counts a call among its equals.
func (f *flight) number() { f.key = f.s.keys.count(f.rank) }

// lookup says where a call is recorded that is about to be numbered. An earlier
// attempt may have been recorded by other rules for redaction.
func (f *flight) lookup() (at reference, ok bool) {
	if at, ok = f.s.past.find(f.rank.kept, f.s.keys.next(f.rank.kept)); ok {
		return at, ok
	}
	return f.s.past.find(f.rank.same, f.s.keys.next(f.rank.same))
}

// known reports whether an earlier attempt made the call, so that nobody is to
// be asked about it.
func (f *flight) known(calls context.Context) bool {
	if f.s.past == nil {
		return false
	}
	f.rank.await(calls)
	_, ok := f.lookup()
	return ok
}

// replayed answers a call of a later attempt from an earlier one, and reports
// whether it did.
//
// What was not kept, be it the answer or what tells two calls apart, is asked
// for again where that does no harm, and never where it could.
func (f *flight) replayed(ctx, calls context.Context) bool {
	at, ok := f.lookup()
	if !ok {
		return false
	}
	c, err := f.s.past.read(calls, at)
	if err != nil {
		f.s.giveBack(f)
		f.unread(ctx, calls, err)
		return true
	}
	value, no, kept := known(c)
	switch {
	case kept && unredacted(f.call.Arguments):
		f.number()
		f.give(ctx, c, value, no)
	case c.State == job.CallLate && len(c.Answer) == 0, f.tool.Idempotent, f.tool.ReadOnly:
		return false
	default:
		f.number()
		f.s.giveBack(f)
		f.refuse(ctx, refusef(CodeNotRecorded, notRecorded))
	}
	return true
}

// unread ends a call whose record could not be read.
func (f *flight) unread(ctx, calls context.Context, err error) {
	no := refusef(CodeAuditFailed, "the recorded answer could not be read, so the call was not made")
	no.detail = err.Error()
	if calls.Err() != nil {
		no = ending(context.Cause(calls))
	}
	f.refuse(ctx, no)
}

// give records and tells what the recorded call c brought.
func (f *flight) give(ctx context.Context, c *job.Call, value jsontext.Value, no *refusal) {
	if no != nil {
		f.fail(job.CallReplayed, no)
	}
	f.call.State, f.call.Answer, f.call.Provider = job.CallReplayed, f.rule.Kept(value), c.Provider
	f.call.SchemaDigest = c.SchemaDigest
	f.call.Detail = fmt.Sprintf("recorded by attempt %d as call %d", c.Attempt, c.Seq)
	if c.Job != f.call.Job {
		f.call.Detail += " of job " + c.Job.String()
	}
	if !f.record(ctx) {
		no = refusef(CodeAuditFailed, "the answer could not be recorded")
	}
	if no != nil {
		f.reply(ctx, errorReply(f.id, no, f.tool))
		return
	}
	f.reply(ctx, okReply(f.id, value))
}

// rerun serves a call of a replay. Only what the job grants is decided anew;
// nothing is looked up or sent.
func (f *flight) rerun(ctx, calls context.Context) {
	namespace, name, no := f.s.policy.resolve(f.ask)
	f.call.Namespace, f.call.Name = job.Printable(namespace, maxShown), job.Printable(name, maxShown)
	if f.finished {
		no = refusef(CodeFinished, "the result has been given")
	}
	if no != nil {
		f.refuse(ctx, no)
		return
	}
	f.rank.await(calls)
	at, ok := f.lookup()
	f.number()
	if short := abridged(f.call.Arguments); !ok && len(short) < len(f.call.Arguments) {
		// As the record has it of a refused call.
		r := f.s.keys.alone(f.s.attempt.Job.ID, namespace, name, short)
		at, ok = f.s.past.find(r.same, f.s.keys.next(r.same))
		f.s.keys.count(r)
	}
	if !ok {
		f.refuse(ctx, refusef(CodeDiverged, "the job that this replays did not make this call"))
		return
	}
	c, err := f.s.past.read(calls, at)
	if err != nil {
		f.unread(ctx, calls, err)
		return
	}
	f.retell(ctx, calls, c)
}

// retell ends a call of a replay as the recorded one ended.
func (f *flight) retell(ctx, calls context.Context, c *job.Call) {
	value, no, kept := told(c)
	if no != nil && (no.code == CodeToolLimit || no.code == CodeToolTimeLimit) {
		f.s.limited()
	}
	if c.State == job.CallRefused {
		f.call.SchemaDigest = c.SchemaDigest
		f.refuse(ctx, no)
		return
	}
	if over := f.letAgain(); over != nil {
		f.refuse(ctx, over)
		return
	}
	f.metered = true
	switch {
	case no != nil && no.code == CodeCancelled, c.State == job.CallStarted:
		<-calls.Done() // it was open to the end
		f.give(ctx, c, nil, ending(context.Cause(calls)))
	case !kept:
		f.refuse(ctx, refusef(CodeNotRecorded, notRecorded))
	default:
		f.give(ctx, c, value, no)
	}
}

// tools are those that the guest is told of. In a replay that are also the ones
// it called, whether or not anybody offers them now.
func (s *session) tools(ctx context.Context) []*Tool {
	granted := s.policy.granted(ctx)
	if !s.past.rules() {
		return granted
	}
	known := map[[2]string]bool{}
	for _, t := range granted {
		known[[2]string{t.Namespace, t.Name}] = true
	}
	for _, t := range s.past.tools {
		if pair := [2]string{t.Namespace, t.Name}; !known[pair] && s.policy.allows(t.Namespace, t.Name) {
			granted = append(granted, t)
		}
	}
	return granted
}

// letAgain takes a call of a replay out of the job's own limits. The operator's
// are of what reaches a provider.
func (f *flight) letAgain() *refusal {
	rule := f.rule
	f.rule = nil
	defer func() { f.rule = rule }()
	_, no := f.s.letThrough(f)
	return no
}
