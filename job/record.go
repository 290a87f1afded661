package job

import "time"

// Record is where a job stands and how it came there, without code and output.
type Record struct {
	ID       ID                `json:"id"`
	Key      string            `json:"key,omitzero"`
	Tenant   string            `json:"tenant"`
	Batch    string            `json:"batch,omitzero"`
	Labels   map[string]string `json:"labels,omitzero"`
	Lane     string            `json:"lane"`
	Priority Priority          `json:"priority"`
	State    State             `json:"state"`
	// Status is set when State.Ended; Error is then the result's, without
	// its traceback.
	Status     Status `json:"status,omitzero"`
	Error      *Error `json:"error,omitzero"`
	Generation int    `json:"generation"`
	// Attempt is the newest attempt's number, Failures how many of them
	// failed since the last requeue: by our fault, or as retry_on says.
	Attempt     int `json:"attempt,omitzero"`
	Failures    int `json:"failures,omitzero"`
	MaxAttempts int `json:"max_attempts"`
	// Worker holds the job, or held it last. Backend is what ran the attempt
	// that made the result.
	Worker          string    `json:"worker,omitzero"`
	Backend         string    `json:"backend,omitzero"`
	LeaseUntil      time.Time `json:"lease_until,omitzero"`
	CancelRequested bool      `json:"cancel_requested,omitzero"`
	Submitted       time.Time `json:"submitted"`
	// NotBefore is the submitter's, then that of the next retry.
	NotBefore time.Time `json:"not_before,omitzero"`
	Deadline  time.Time `json:"deadline,omitzero"`
	Finished  time.Time `json:"finished,omitzero"`
	// Attempts are there when one job was asked for.
	Attempts []AttemptRecord `json:"attempts,omitzero"`
	// Artifacts are the result's, there when one job was asked for.
	Artifacts []Artifact `json:"artifacts,omitzero"`
}

// AttemptRecord is one try at a job. Number 0 is an end that no attempt made.
type AttemptRecord struct {
	Number     int       `json:"number"`
	Generation int       `json:"generation"`
	Worker     string    `json:"worker,omitzero"`
	Backend    string    `json:"backend,omitzero"`
	Started    time.Time `json:"started"`
	Ended      time.Time `json:"ended,omitzero"`
	// Outcome is running, finished, failed (to be tried again, or the last of
	// our failures),
	// released (given back) or lost (its worker vanished).
	Outcome   string `json:"outcome"`
	Status    Status `json:"status,omitzero"`
	Error     *Error `json:"error,omitzero"`
	ToolCalls int    `json:"tool_calls,omitzero"`
}

// Filter chooses records of a tenant, newest first.
type Filter struct {
	Batch  string    `json:"batch,omitzero"`
	Status Status    `json:"status,omitzero"`
	Since  time.Time `json:"since,omitzero"`
	// Before continues a listing: only jobs older than this one.
	Before ID `json:"before,omitzero"`
	// Limit is at most 1,000; zero means 100.
	Limit int `json:"limit,omitzero"`
}

// Summary counts the jobs of a batch.
type Summary struct {
	Batch    string         `json:"batch"`
	Total    int            `json:"total"`
	States   map[State]int  `json:"states"`
	Statuses map[Status]int `json:"statuses"`
}

// Cancelled says what a request to cancel met: how many jobs ended at once,
// how many were running and have been told, how many had ended before.
type Cancelled struct {
	Ended   int `json:"ended"`
	Running int `json:"running"`
	Already int `json:"already"`
}
