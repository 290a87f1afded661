package job

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Result is what a job gave.
type Result struct {
	Job    ID     `json:"job"`
	Key    string `json:"key,omitzero"`
	Tenant string `json:"tenant"`
	Batch  string `json:"batch,omitzero"`

	Status Status `json:"status"`
	// Value is any JSON; what JSON lacks has the tagged forms that
	// broker/PROTOCOL.md documents. It is what the guest said.
	Value jsontext.Value `json:"value,omitzero"`
	// Lossy is set when a part of the value is only its repr.
	Lossy bool   `json:"lossy,omitzero"`
	Error *Error `json:"error,omitzero"`

	// Stdout and Stderr are kept up to limits.output each, whatever the end.
	// The byte counts are of all that was written.
	Stdout          Bytes `json:"stdout,omitzero"`
	StdoutBytes     int64 `json:"stdout_bytes"`
	StdoutTruncated bool  `json:"stdout_truncated,omitzero"`
	Stderr          Bytes `json:"stderr,omitzero"`
	StderrBytes     int64 `json:"stderr_bytes"`
	StderrTruncated bool  `json:"stderr_truncated,omitzero"`

	// ExitCode is absent when a signal ended the guest or nothing ran.
	ExitCode *int   `json:"exit_code,omitzero"`
	Signal   string `json:"signal,omitzero"`
	// ToolCalls counts the calls that policy let through; refusals are in the audit.
	ToolCalls int `json:"tool_calls"`
	// Events are facts beside the status, such as a child killed for memory
	// that the guest survived, or a call that was never awaited.
	Events []Event `json:"events,omitzero"`

	Usage     Usage     `json:"usage"`
	Attempt   int       `json:"attempt"`
	Worker    string    `json:"worker,omitzero"`
	Backend   string    `json:"backend,omitzero"`
	Isolation Isolated  `json:"isolation,omitzero"`
	Finished  time.Time `json:"finished"`

	// Attempts are all tries at the job with what came of each, this one among
	// them, where there was more than one: what a retry mended is not hidden.
	// Their messages may be cut.
	Attempts []AttemptRecord `json:"attempts,omitzero"`

	// AuditHead is the head of the attempt's hash chain of calls, in hex.
	AuditHead string `json:"audit_head,omitzero"`
	// Policy is the digest of the operator's rules for tools that the attempt
	// kept to, in hex; empty for a worker without.
	Policy string `json:"policy,omitzero"`

	// Artifacts are the files that collect named, in the guest's order. They
	// are there for StatusOK, and for StatusGuestError by an exception: only a
	// guest that came to its end brings files back.
	Artifacts []Artifact `json:"artifacts,omitzero"`
	// Verdict belongs to expect.
	Verdict string `json:"verdict,omitzero"`
}

// Error is why a job did not end as StatusOK. For StatusGuestError it is what
// the guest said of its exception; otherwise the host's own words.
type Error struct {
	// Type is the exception's class, or a short code of ours.
	Type    string `json:"type"`
	Message string `json:"message,omitzero"`
	// Traceback has the user's own line numbers.
	Traceback string `json:"traceback,omitzero"`
}

// Event is a fact beside the status.
type Event struct {
	// Kind is one of the Event… constants.
	Kind  string `json:"kind"`
	Count int    `json:"count,omitzero"`
	Note  string `json:"note,omitzero"`
}

// The kinds of events.
const (
	// EventOOM: processes of the guest were killed for memory.
	EventOOM = "oom"
	// EventProcessesFull: the kernel refused to start processes or threads.
	EventProcessesFull = "processes_full"
	// EventDiskFull: a writable file system was full at the end.
	EventDiskFull = "disk_full"
	// EventUnawaited: a call was made and never awaited, as the guest says.
	EventUnawaited = "unawaited_call"
	// EventLeftOut: more files than MaxArtifacts, or more names than a guest
	// looks at, as the guest says.
	EventLeftOut = "artifacts_left_out"
)

// Usage is what an attempt used, as the host measured it.
type Usage struct {
	// Wall is the guest's life without open calls, ToolWait the time in them.
	Wall     Duration `json:"wall"`
	ToolWait Duration `json:"tool_wait,omitzero"`
	CPU      Duration `json:"cpu,omitzero"`
	// QueueWait is from submission to the claim, Startup from the claim to
	// the guest being ready for its code.
	QueueWait     Duration `json:"queue_wait,omitzero"`
	Startup       Duration `json:"startup,omitzero"`
	PeakMemory    Size     `json:"peak_memory,omitzero"`
	PeakProcesses int      `json:"peak_processes,omitzero"`
}

// Isolated are the facts of the wall that this attempt ran behind.
type Isolated struct {
	Level   Isolation `json:"level,omitzero"`
	Version string    `json:"version,omitzero"`
	Kernel  string    `json:"kernel,omitzero"`
	Cgroup  string    `json:"cgroup,omitzero"`
	Python  string    `json:"python,omitzero"`
	// Image is the digest of the guest's file system, where it has one;
	// Runtime what started it, where the backend has a choice.
	Image   string `json:"image,omitzero"`
	Runtime string `json:"runtime,omitzero"`
	// Network names what the guest could reach; empty means nothing.
	Network string `json:"network,omitzero"`
	// Limits says by what each limit was enforced.
	Limits map[LimitName]string `json:"limits,omitzero"`
}
