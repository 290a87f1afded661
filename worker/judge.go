package worker

import (
	"errors"
	"fmt"
	"slices"

	"airlock/backends"
	"airlock/job"
)

// The types of errors that are ours to name. A guest's exception has its class
// name instead, and only ever beside a status that says it is the guest's.
const (
	errBackend           = "backend_error"
	errNoStart           = "guest_did_not_start"
	errChannel           = "channel_error"
	errLimitAboveMaximum = "limit_above_maximum"
	errUnenforceable     = "limit_unenforceable"
	errNotStored         = "result_not_stored"
	errInterrupted       = "interrupted"
	errExit              = "exit"
	errSignal            = "signal"
)

// ending is a status and the error beside it.
type ending struct {
	status job.Status
	err    *job.Error
}

func ended(status job.Status, code, format string, args ...any) ending {
	return ending{status, &job.Error{Type: code, Message: fmt.Sprintf(format, args...)}}
}

// judge finds the one cause of a guest's end. What the host saw comes first;
// what the guest said counts only for a guest that ended by itself.
func (g *guestRun) judge() ending {
	switch {
	case g.err != nil:
		return g.ourFailure()
	case g.outcome.Cause == backends.Killed:
		return g.killed()
	case g.outcome.Cause == backends.Violated:
		return ended(job.StatusPolicyViolation, "system_call", "killed by the system-call filter")
	case g.outcome.Cause == backends.OutOfMemory:
		return ended(job.StatusMemoryLimit, string(job.StatusMemoryLimit), "more memory than %s", g.attempt.Job.Limits.Memory)
	case g.outcome.Cause == backends.OutOfCPU:
		return ended(job.StatusCPULimit, string(job.StatusCPULimit), "more processor time than %s", g.attempt.Job.Limits.CPU)
	case g.report.Breach != "":
		return ended(job.StatusPolicyViolation, "protocol", "%s", g.report.Breach)
	case g.report.Ready.IsZero():
		return ended(job.StatusInfraError, errNoStart, "the guest ended before it said hello: %s", g.lastWords())
	case g.serveErr != nil:
		// The guest ended by itself while its conversation was failing on our
		// side, such as an audit that could not be written.
		return ended(job.StatusInfraError, errChannel, "%v", g.serveErr)
	}
	return g.byItself()
}

func (g *guestRun) ourFailure() ending {
	code := errBackend
	if errors.Is(g.err, backends.ErrUnenforceable) {
		code = errUnenforceable
	}
	return ended(job.StatusInfraError, code, "%s", job.Printable(g.err.Error(), 1000))
}

// backendFailed reports whether the backend is to blame, and may not work any
// more. One that refuses a limit works.
func backendFailed(r *job.Result) bool {
	return r.Status == job.StatusInfraError && r.Error != nil && (r.Error.Type == errBackend || r.Error.Type == errNoStart)
}

// refused reports whether the backend could not hold one of the job's limits.
func refused(r *job.Result) bool {
	return r.Status == job.StatusInfraError && r.Error != nil && r.Error.Type == errUnenforceable
}

// killed is the end of a guest that we ended: by a cause, or since its
// conversation failed.
func (g *guestRun) killed() ending {
	if g.cause != nil {
		return interruption(g.cause, g.attempt.Job)
	}
	switch {
	case g.report.Breach != "":
		return ended(job.StatusPolicyViolation, "protocol", "%s", g.report.Breach)
	case g.report.Ready.IsZero():
		return ended(job.StatusInfraError, errNoStart, "%v", g.serveErr)
	default:
		return ended(job.StatusInfraError, errChannel, "%v", g.serveErr)
	}
}

// byItself is the end of a guest that nobody ended.
func (g *guestRun) byItself() ending {
	clean := g.outcome.Cause == backends.Exited && g.outcome.ExitCode == 0
	limits := g.attempt.Job.Limits
	switch {
	case g.report.Done && g.report.ResultLimited:
		return ended(job.StatusResultLimit, string(job.StatusResultLimit), "the value is larger than %s", limits.Result)
	case clean && g.report.Done && g.report.Error == nil:
		return ending{status: job.StatusOK}
	case clean && !g.report.Done:
		return ended(job.StatusNoResult, string(job.StatusNoResult), "the guest ended without giving a result")
	}
	return ending{g.limitBehind(), g.failure()}
}

// limitBehind is the status of a failed guest: the limit it ran into, as the
// host saw it, or else its own error.
func (g *guestRun) limitBehind() job.Status {
	switch {
	case g.report.ToolLimited:
		return job.StatusToolLimit
	case g.outcome.DiskFull:
		return job.StatusDiskLimit
	case g.outcome.ProcessesFull > 0:
		return job.StatusProcessLimit
	}
	return job.StatusGuestError
}

// failure says what a failed guest failed with.
func (g *guestRun) failure() *job.Error {
	switch {
	case g.report.Error != nil:
		return g.report.Error
	case g.outcome.Cause == backends.Signalled:
		return &job.Error{Type: errSignal, Message: "ended by " + g.outcome.Signal}
	default:
		return &job.Error{Type: errExit, Message: fmt.Sprintf("exit code %d", g.outcome.ExitCode)}
	}
}

// events are the facts beside the status; a fact that is the status is left
// out.
func (g *guestRun) events(status job.Status) []job.Event {
	var events []job.Event
	add := func(kind string, count int, is job.Status) {
		if count > 0 && status != is {
			events = append(events, job.Event{Kind: kind, Count: count})
		}
	}
	add(job.EventOOM, g.outcome.OOMKills, job.StatusMemoryLimit)
	add(job.EventProcessesFull, g.outcome.ProcessesFull, job.StatusProcessLimit)
	if g.outcome.DiskFull {
		add(job.EventDiskFull, 1, job.StatusDiskLimit)
	}
	return append(events, g.report.Events...)
}

// bringsFiles reports whether the guest came to its end: with a value, or with
// an exception that no limit was behind. What a guest was at when it was killed
// or left is nobody's result.
func (g *guestRun) bringsFiles(end ending) bool {
	return end.status == job.StatusOK || end.status == job.StatusGuestError && g.report.Done && g.report.Error != nil
}

// lastWords is the end of what the guest printed, for an operator who asks
// why an interpreter does not start.
func (g *guestRun) lastWords() string {
	said := g.output.stderr.kept
	said = said[max(0, len(said)-500):]
	if len(said) == 0 {
		return fmt.Sprintf("%v, exit code %d", g.outcome.Cause, g.outcome.ExitCode)
	}
	return job.Printable(string(said), 600)
}

// interruption maps the cause of a context to an end.
func interruption(cause error, j *job.Job) ending {
	switch {
	case errors.Is(cause, job.ErrTimeout):
		return ended(job.StatusTimeout, string(job.StatusTimeout), "ran longer than %s", j.Limits.Wall)
	case errors.Is(cause, job.ErrOutputLimit):
		return ended(job.StatusOutputLimit, string(job.StatusOutputLimit), "wrote more than %s", job.MaxOutputTotal)
	case errors.Is(cause, job.ErrCancelled):
		return ended(job.StatusCancelled, string(job.StatusCancelled), "cancelled on request")
	case errors.Is(cause, job.ErrExpired):
		return ended(job.StatusExpired, string(job.StatusExpired), "the deadline passed")
	}
	return ended(job.StatusInfraError, errInterrupted, "%v", cause)
}

// interrupted is the result of an attempt whose end came before its guest.
func interrupted(a *job.Attempt, box *Sandbox, cause error) *job.Result {
	end := interruption(cause, a.Job)
	return bare(a, box, end.status, end.err.Type, end.err.Message)
}

// retried reports whether a failure is worth another try: one of ours, unless
// it is final, and of the guest's own those that the job names.
func retried(j *job.Job, r *job.Result) bool {
	if r.Status == job.StatusInfraError {
		return !final(r)
	}
	return slices.Contains(j.RetryOn, r.Status)
}

// final reports whether another attempt would end the same way.
func final(r *job.Result) bool {
	return r.Error != nil && (r.Error.Type == errLimitAboveMaximum || r.Error.Type == errNotStored)
}

// unstorable stands in for a result that the ledger refuses.
func unstorable(r *job.Result, why error) *job.Result {
	kept := *r
	kept.Status, kept.Value, kept.Stdout, kept.Stderr, kept.Events = job.StatusInfraError, nil, nil, nil, nil
	kept.Artifacts, kept.AuditHead = nil, "" // a crash may have taken rows back
	kept.Error = &job.Error{
		Type:    errNotStored,
		Message: fmt.Sprintf("the job ended as %s, but its result cannot be stored: %s", r.Status, job.Printable(why.Error(), 500)),
	}
	return &kept
}
