package job

import "fmt"

// Status is how a job ended. The set is closed; the zero value is invalid.
type Status string

// The statuses. Each end has exactly one, taken from what the host saw.
const (
	// StatusOK: a result frame arrived, and then the guest ended by itself
	// inside its limits.
	StatusOK Status = "ok"
	// StatusGuestError: an exception, a non-zero exit, or a signal by the
	// guest's own doing.
	StatusGuestError Status = "guest_error"
	// StatusNoResult: the guest ended without a result frame.
	StatusNoResult Status = "no_result"

	StatusTimeout      Status = "timeout"
	StatusCPULimit     Status = "cpu_limit"
	StatusMemoryLimit  Status = "memory_limit"
	StatusOutputLimit  Status = "output_limit"
	StatusProcessLimit Status = "process_limit"
	StatusDiskLimit    Status = "disk_limit"
	StatusToolLimit    Status = "tool_limit"
	StatusResultLimit  Status = "result_limit"

	// StatusPolicyViolation: killed by the system-call filter, or broke the
	// channel's protocol.
	StatusPolicyViolation Status = "policy_violation"
	// StatusCancelled: somebody asked.
	StatusCancelled Status = "cancelled"
	// StatusExpired: the deadline passed.
	StatusExpired Status = "expired"
	// StatusInfraError: our failure, after the last retry.
	StatusInfraError Status = "infra_error"
)

// Statuses lists all of them, in the order they are documented.
func Statuses() []Status {
	return []Status{
		StatusOK, StatusGuestError, StatusNoResult, StatusTimeout, StatusCPULimit, StatusMemoryLimit,
		StatusOutputLimit, StatusProcessLimit, StatusDiskLimit, StatusToolLimit, StatusResultLimit,
		StatusPolicyViolation, StatusCancelled, StatusExpired, StatusInfraError,
	}
}

// UnmarshalText refuses words outside the set.
func (s *Status) UnmarshalText(text []byte) error {
	for _, known := range Statuses() {
		if string(known) == string(text) {
			*s = known
			return nil
		}
	}
	return fmt.Errorf("unknown status %q", Printable(string(text), 40))
}

// Retryable reports whether a job may ask for another try after this end: it
// is a failure, and the guest's own.
func (s Status) Retryable() bool {
	switch s {
	case StatusOK, StatusCancelled, StatusExpired, StatusInfraError, "":
		return false
	}
	return true
}

// State is where a job stands. The set is closed.
type State string

// The states a job's row goes through.
const (
	StateQueued    State = "queued"
	StateRunning   State = "running"
	StateRetryWait State = "retry_wait"
	StateFinished  State = "finished"
	// StateDead is finished, by our failure: StatusInfraError after the last
	// attempt. Its input is kept for requeue.
	StateDead State = "dead"
)

// Ended reports whether the state is final.
func (s State) Ended() bool { return s == StateFinished || s == StateDead }
