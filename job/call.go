package job

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// CallState is where a call stands. The set is closed.
type CallState string

// The states of a call.
const (
	CallStarted   CallState = "started"
	CallOK        CallState = "ok"
	CallFailed    CallState = "failed"
	CallRefused   CallState = "refused"
	CallCancelled CallState = "cancelled"
	// CallLate: the answer came after the call had been given up; it was
	// recorded and not delivered.
	CallLate     CallState = "late"
	CallReplayed CallState = "replayed"
)

// Call is the audited fact that a guest called a tool.
type Call struct {
	Job     ID  `json:"job"`
	Attempt int `json:"attempt"`
	// Seq counts the attempt's calls from 1 without gaps.
	Seq int `json:"seq"`
	// Namespace and Name are as the guest said them, made printable: a
	// refused call may name anything.
	Namespace string         `json:"namespace"`
	Name      string         `json:"name"`
	Arguments jsontext.Value `json:"arguments,omitzero"`
	State     CallState      `json:"state"`
	Answer    jsontext.Value `json:"answer,omitzero"`
	// Code and Message say why a call was not ok. Detail is for operators
	// and never reaches the guest.
	Code    string `json:"code,omitzero"`
	Message string `json:"message,omitzero"`
	Detail  string `json:"detail,omitzero"`
	// Retryable: the guest was told that the same call may be made again.
	Retryable bool      `json:"retryable,omitzero"`
	Started   time.Time `json:"started"`
	Ended     time.Time `json:"ended,omitzero"`
	Provider  string    `json:"provider,omitzero"`
	// SchemaDigest is that of the tool's schemas when the call was checked.
	SchemaDigest string `json:"schema_digest,omitzero"`

	// The start and the end of a call are two links of the attempt's hash
	// chain; a refused call has only the second.
	StartLink int    `json:"start_link,omitzero"`
	StartHash []byte `json:"start_hash,omitzero"`
	EndLink   int    `json:"end_link,omitzero"`
	EndHash   []byte `json:"end_hash,omitzero"`
}

// CallQuery chooses recorded calls of one job.
type CallQuery struct {
	Tenant string
	Job    ID
	// One of these says which: the calls of all attempts before this number;
	// those of the attempt that ended the job; one call.
	Before       int
	Last         bool
	Attempt, Seq int
	// Outline leaves answers and details out.
	Outline bool
}
