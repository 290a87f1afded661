package broker

import (
	"cmp"
	"context"
	"errors"
	"time"

	"airlock/job"
)

// Approvals has people decide about calls. Its methods may be called from
// several goroutines.
type Approvals interface {
	// Ask has a person decide about c, which is recorded as waiting before
	// anybody hears of it, and waits until it is decided, or for that long at
	// most. It returns the request in the state that counts: approved, denied
	// or expired. Its error is ctx's cause soon after ctx has ended, and then
	// the request is recorded as gone, or left to be found so; job.ErrFenced if
	// a no longer holds its job; or why it could not be recorded.
	Ask(ctx context.Context, a *job.Attempt, c job.Call, within time.Duration) (job.Approval, error)
}

// DefaultApproveWithin is how long a call waits where no rule says.
const DefaultApproveWithin = time.Hour

// approve has a call wait for a person where the operator wants that. The
// guest's clock stands still as it does for any open call; tool time does too,
// since the call does not count as begun.
func (f *flight) approve(calls context.Context) (*refusal, error) {
	if f.rule == nil || !f.rule.Approve {
		return nil, nil
	}
	if no := f.s.mayAsk(f); no != nil {
		return no, nil
	}
	within := cmp.Or(f.rule.ApproveWithin.Std(), DefaultApproveWithin)
	decided, err := f.s.b.cfg.Approvals.Ask(calls, f.s.attempt, f.call, within)
	switch {
	case errors.Is(err, job.ErrFenced):
		return nil, err
	case calls.Err() != nil:
		return ending(context.Cause(calls)), nil
	case err != nil:
		f.s.log.Warn().Err(err).Int(fieldCall, f.call.Seq).Msg("approval not asked for")
		no := refusef(CodeAuditFailed, "the request for approval could not be recorded, so the call was not made")
		no.detail = err.Error()
		return no, nil
	}
	f.call.Started = timestamp() // the wait is not the tool's
	return f.decided(decided), nil
}

// decided is what the guest is told of a decision. Who made it is for the
// audit; why, for the guest too.
func (f *flight) decided(a job.Approval) *refusal {
	switch a.State {
	case job.ApprovalApproved:
		return nil
	case job.ApprovalDenied:
		no := refusef(CodeApprovalDenied, "a person denied this call%s", because(a.Reason))
		no.detail = "denied by " + a.By
		return no
	}
	return refusef(CodeApprovalExpired, "nobody approved this call in time")
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// mayAsk refuses what no decision could let through, and takes one request out
// of the job's: people are not asked more often than a job may call.
func (s *session) mayAsk(f *flight) *refusal {
	if s.b.cfg.Approvals == nil {
		return refusef(CodeApprovalDenied, "this call needs a person's approval, and this worker cannot ask for one")
	}
	limits := s.attempt.Job.Limits
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.meter.usedUp():
		s.report.ToolLimited = true
		return refusef(CodeToolTimeLimit, "calls have taken %s, which is this job's limit", limits.ToolTime)
	case s.carried >= limits.ToolCalls || s.asked >= limits.ToolCalls:
		s.report.ToolLimited = true
		return refusef(CodeToolLimit, "%d calls have been made or asked for, which is this job's limit", limits.ToolCalls)
	}
	if q := s.quota(f); q != nil {
		before := *q
		no := s.charge(f)
		*q = before // what is charged is the call, once it is approved
		if no != nil {
			s.report.ToolLimited = true
			return no
		}
	}
	s.asked++
	return nil
}
