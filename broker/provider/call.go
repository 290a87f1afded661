package provider

import (
	"context"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Call is one call as it arrives. Arguments were written by the guest, all
// else by the worker.
type Call struct {
	Namespace, Tool string
	// Tenant is whose job makes the call.
	Tenant string
	Job    string
	// ID is unique to the call: <job>.<attempt>.<sequence>.
	ID string
	// IdempotencyKey is the same when the call is made again by a later
	// attempt of the job.
	IdempotencyKey string
	// TraceParent is the W3C trace context, empty where the worker does not
	// trace.
	TraceParent string
	// Deadline is when nobody waits for the answer any longer; the handler's
	// context ends then. It is zero if the caller named none.
	Deadline  time.Time
	Arguments jsontext.Value
}

type callKey struct{}

// CallOf is the call that a handler's context belongs to. It is how a function
// given to Func learns the tenant and the keys; of any other context it is the
// zero Call.
func CallOf(ctx context.Context) Call {
	call, _ := ctx.Value(callKey{}).(Call)
	return call
}

// Answer is what becomes of a call: Body, or an error with its Code.
type Answer struct {
	Body jsontext.Value
	// Code is empty for an answer that went well.
	Code string
	// Message is for the guest, Detail for operators only.
	Message, Detail string
	// Retryable says that the same call may be made again without harm.
	Retryable bool
}
