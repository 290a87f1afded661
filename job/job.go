package job

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Job is one piece of code with its inputs, limits and requirements, as a
// submitter writes it. Decode makes one from foreign bytes; Prepare checks it
// and fills the defaults.
type Job struct {
	ID ID `json:"id,omitzero"`
	// Key is the idempotency key, unique per tenant.
	Key    string            `json:"key,omitzero"`
	Tenant string            `json:"tenant,omitzero"`
	Batch  string            `json:"batch,omitzero"`
	Labels map[string]string `json:"labels,omitzero"`

	// Code is Python source, bound by MaxCode.
	Code string `json:"code"`
	// Vars is a JSON object bound as globals before the code runs.
	Vars  jsontext.Value    `json:"vars,omitzero"`
	Stdin Bytes             `json:"stdin,omitzero"`
	Args  []string          `json:"args,omitzero"`
	Env   map[string]string `json:"env,omitzero"`
	Files []File            `json:"files,omitzero"`

	// Tools are the grants; none means no tools.
	Tools []Grant `json:"tools,omitzero"`
	// Namespace pins every call to one namespace.
	Namespace string `json:"namespace,omitzero"`

	Limits   Limits      `json:"limits,omitzero"`
	Requires Requirement `json:"requires,omitzero"`
	Priority Priority    `json:"priority,omitzero"`

	// NotBefore is the earliest start, Deadline when to give up.
	NotBefore time.Time `json:"not_before,omitzero"`
	Deadline  time.Time `json:"deadline,omitzero"`
	// MaxAttempts is how often a job is tried when the failure is ours, or one
	// that RetryOn names.
	MaxAttempts int `json:"max_attempts,omitzero"`
	// RetryOn are the guest's own failures that are retried too. Without it
	// such a failure is the job's result.
	RetryOn []Status `json:"retry_on,omitzero"`
	// OnRetry is what a later attempt does about the calls of earlier ones,
	// whatever it is retried for, a requeue included; OnRetryReplay without it.
	OnRetry OnRetry `json:"on_retry,omitzero"`
	// ReplayOf names an ended job of the same tenant: every call is answered
	// from the record of the attempt that ended it, and none reaches a
	// provider. `submit replay` makes such jobs; OnRetry means nothing then.
	ReplayOf ID `json:"replay_of,omitzero"`

	// Network asks for a network; only workers whose operator allows guests
	// one have such a job in their lanes.
	Network bool `json:"network,omitzero"`

	// Collect are globs below /workspace: the files they cover when the code
	// has ended are brought back. Collects says what a glob is.
	Collect []string `json:"collect,omitzero"`

	// Expect is typed so that a submitter's mistake is found, and refused by
	// Prepare until its machinery exists.
	Expect jsontext.Value `json:"expect,omitzero"`
}

// OnRetry says what becomes of calls that earlier attempts of a job made.
type OnRetry string

// The ways to go on.
const (
	// OnRetryReplay: a later attempt is given the recorded end of each call
	// that ended in an earlier one, the tool's own failures included, and the
	// provider is not asked again. Calls are matched by tool, arguments and how
	// many equal ones came before. A call of which no end is known, or that
	// failed on the way (nobody there, no answer in time, cancelled), is made
	// again under the Idempotency-Key that it had. So who retries a failure
	// that a tool's error caused wants OnRetryRecall.
	OnRetryReplay OnRetry = "replay"
	// OnRetryRecall: a later attempt makes all calls again.
	OnRetryRecall OnRetry = "recall"
)

// File is put under /workspace before the code runs.
type File struct {
	// Path is relative to /workspace, with forward slashes, no "..".
	Path    string `json:"path"`
	Content Bytes  `json:"content,omitzero"`
	// Blob refers to content stored beforehand; refused until it exists.
	Blob string `json:"blob,omitzero"`
}

// AnyTool as a Grant's name grants every tool of its namespace.
const AnyTool = "*"

// Grant allows a guest to call one tool, or with AnyTool all of a namespace.
// Grants are compared as pairs, never as a dotted string.
type Grant struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// Allows reports whether one of the grants covers the pair. No grants allow
// nothing.
func Allows(grants []Grant, namespace, name string) bool {
	for _, g := range grants {
		if g.Namespace == namespace && (g.Name == AnyTool || g.Name == name) {
			return true
		}
	}
	return false
}

// Priority orders lanes; workers serve them 8:4:1 so that low never starves.
type Priority string

// The priorities.
const (
	PriorityHigh   Priority = "high"
	PriorityNormal Priority = "normal"
	PriorityLow    Priority = "low"
)

// Priorities lists them, most urgent first.
func Priorities() []Priority { return []Priority{PriorityHigh, PriorityNormal, PriorityLow} }

// DefaultTenant is whose a job is that names no tenant.
const DefaultTenant = "default"

// DefaultMaxAttempts is how often a job is tried that does not say.
const DefaultMaxAttempts = 3

// The bounds of a job's parts.
const (
	MaxCode     = 1 * MiB
	MaxVars     = 1 * MiB
	MaxStdin    = 1 * MiB
	MaxFiles    = 256
	MaxSpec     = 4 * MiB // the whole job as JSON; with framing it fits a guest's job frame
	MaxKey      = 256
	MaxLabels   = 64
	MaxArgs     = 256
	MaxEnv      = 64
	MaxGrants   = 256
	MaxAttempts = 20
	MaxImage    = 256
)
