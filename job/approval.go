package job

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// ApprovalState is where a call that waits for a person stands. The set is
// closed.
type ApprovalState string

// The states of a request for approval. All but the first are final.
const (
	ApprovalWaiting  ApprovalState = "waiting"
	ApprovalApproved ApprovalState = "approved"
	ApprovalDenied   ApprovalState = "denied"
	// ApprovalExpired: nobody decided in time.
	ApprovalExpired ApprovalState = "expired"
	// ApprovalGone: the attempt ended before anybody decided.
	ApprovalGone ApprovalState = "gone"
)

// CallRef names one call: it is written JOB/ATTEMPT/SEQ.
type CallRef struct {
	Job     ID  `json:"job,omitzero"`
	Attempt int `json:"attempt"`
	Seq     int `json:"seq"`
}

// String is the written form.
func (r CallRef) String() string {
	return r.Job.String() + "/" + strconv.Itoa(r.Attempt) + "/" + strconv.Itoa(r.Seq)
}

// Short is String with the last digits of the job's id only. Two calls may
// have the same, though hardly ever at one time.
func (r CallRef) Short() string {
	id := r.String()
	return id[strings.LastIndexByte(id, '-')+1:]
}

// ParseCall reads JOB/ATTEMPT/SEQ. JOB may be the last digits of an id, which
// come back as tail beside the zero ID.
func ParseCall(s string) (ref CallRef, tail string, err error) {
	parts := strings.Split(s, "/")
	if len(parts) != 3 {
		return ref, "", fmt.Errorf("%q is not JOB/ATTEMPT/SEQ, as `submit approvals` lists them", Printable(s, 80))
	}
	for i, into := range []*int{&ref.Attempt, &ref.Seq} {
		if *into, err = strconv.Atoi(parts[i+1]); err != nil || *into < 1 {
			return ref, "", fmt.Errorf("%q is not JOB/ATTEMPT/SEQ: %q is no number from 1", Printable(s, 80), Printable(parts[i+1], 20))
		}
	}
	if ref.Job, err = ParseID(parts[0]); err == nil {
		return ref, "", nil
	}
	if len(parts[0]) != shortID || strings.Trim(parts[0], "0123456789abcdef") != "" {
		return ref, "", fmt.Errorf("%q is neither a job's id nor its last %d digits", Printable(parts[0], 80), shortID)
	}
	return ref, parts[0], nil
}

// shortID is how many digits of an id Short has: those of its last group.
const shortID = 12

// Approval is a tool call that waits for a person, or waited for one.
type Approval struct {
	CallRef
	Tenant    string `json:"tenant"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Arguments are as the audit keeps them.
	Arguments jsontext.Value `json:"arguments,omitzero"`
	Asked     time.Time      `json:"asked"`
	Expires   time.Time      `json:"expires"`
	State     ApprovalState  `json:"state"`
	// Decided, By and Reason are of a final state. By and Reason are what
	// somebody wrote; nothing proves who it was.
	Decided time.Time `json:"decided,omitzero"`
	By      string    `json:"by,omitzero"`
	Reason  string    `json:"reason,omitzero"`
}

// The bounds of what a person writes.
const (
	MaxApprover = 200
	MaxReason   = 1000
)

// Decision is what a person says about a call.
type Decision struct {
	CallRef
	// Tail stands for CallRef.Job when that is zero: the id's last digits.
	Tail   string `json:"tail,omitzero"`
	Deny   bool   `json:"deny,omitzero"`
	By     string `json:"by"`
	Reason string `json:"reason,omitzero"`
}

// Check returns a *FieldError for a decision that is none.
func (d *Decision) Check() error {
	switch {
	case d.Attempt < 1 || d.Seq < 1:
		return fieldErrorf("seq", "attempt and seq count from 1")
	case d.Job.IsZero() == (d.Tail == ""):
		return fieldErrorf("job", "want a job's id, or the last digits of one")
	case d.Job.IsZero() && (len(d.Tail) != shortID || strings.Trim(d.Tail, "0123456789abcdef") != ""):
		return fieldErrorf("tail", "want the last %d digits of a job's id", shortID)
	case d.By == "" || len(d.By) > MaxApprover:
		return fieldErrorf("by", "want 1 to %d bytes", MaxApprover)
	case len(d.Reason) > MaxReason:
		return fieldErrorf("reason", "want at most %d bytes", MaxReason)
	}
	return nil
}

// State is what the decision makes of a request.
func (d *Decision) State() ApprovalState {
	if d.Deny {
		return ApprovalDenied
	}
	return ApprovalApproved
}
