package broker

import (
	"errors"
	"fmt"
	"time"

	"airlock/job"
)

// record takes a result into the report. It returns why a value is not
// accepted.
func (s *session) record(r *Result, artifacts []job.Artifact) *refusal {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.report.Done, s.report.Returned = true, time.Now()
	s.report.Artifacts = artifacts
	s.report.Events = unawaited(r.Unawaited)
	if r.LeftOut > 0 {
		s.report.Events = append(s.report.Events, job.Event{Kind: job.EventLeftOut, Count: int(r.LeftOut)})
	}
	limit := s.attempt.Job.Limits.Result
	switch {
	case r.TooLarge != nil:
		s.report.ResultLimited = true
	case len(r.Value) > int(limit):
		s.report.ResultLimited = true
		return refusef(CodeTooLarge, "the value is %d bytes, the limit is %s", len(r.Value), limit)
	default:
		s.report.Value, s.report.Lossy, s.report.Error = r.Value, r.Lossy, r.Error
	}
	return nil
}

// unawaited turns the guest's names into events, one per name.
func unawaited(names []string) []job.Event {
	var events []job.Event
	at := map[string]int{}
	for _, name := range names {
		note := job.Printable(name, 2*maxShown)
		if i, ok := at[note]; ok {
			events[i].Count++
			continue
		}
		at[note] = len(events)
		events = append(events, job.Event{Kind: job.EventUnawaited, Count: 1, Note: note})
	}
	return events
}

// finish completes the report. cause is why the conversation ended.
func (s *session) finish(cause error) (*job.Report, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.report.Spoke = s.spoke
	s.report.ToolCalls = s.carried
	s.report.ToolWait = s.meter.total()
	s.report.AuditHead = s.audit.headHex()
	s.report.Policy = s.policy.rules.Digest()
	report := s.report
	var broken *breach
	if errors.As(cause, &broken) {
		report.Breach = broken.reason
	}
	switch {
	case s.lost != nil:
		report.AuditHead = "" // which the rows may not lead to
		return &report, s.lost
	case broken != nil:
		return &report, fmt.Errorf("%w: %s", ErrBreach, broken.reason)
	case errors.Is(cause, errOurs), errors.Is(cause, ErrNoHello):
		return &report, cause
	}
	return &report, nil
}

// errOurs is wrapped by what neither guest nor channel is to blame for.
var errOurs = errors.New("speak to the guest")

// lose ends a conversation whose calls are no longer recorded in full.
func (s *session) lose(err error) {
	s.mu.Lock()
	if s.lost == nil {
		s.lost = err
	}
	s.mu.Unlock()
	s.end(err)
}
