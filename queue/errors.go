package queue

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"airlock/job"
)

// The errors that callers branch on.
var (
	// ErrUnreachable is wrapped by Connect's error when no server answered
	// before its context ended.
	ErrUnreachable = errors.New("nats is unreachable")
	// ErrNoQueue is wrapped by Attach's error when no worker ever set the
	// queue up on this server.
	ErrNoQueue = errors.New("there is no queue on this nats server: start a worker first")
	// ErrRefused is wrapped by Attach's error when the server does not let
	// this user act for the tenant.
	ErrRefused = errors.New("the nats server refuses this user to act for the tenant: use the tenant's own credentials")
	// ErrNoApprover is wrapped by Decide's error when the server does not let
	// this user decide for the tenant.
	ErrNoApprover = errors.New("the nats server does not let this user decide about the tenant's calls: use the credentials of its approver")
	// ErrOverQuota is wrapped by Submit's error when the tenant has as many
	// jobs in the lane and priority, waiting or running, as it may. Mostly it
	// is a *QuotaError, with the numbers.
	ErrOverQuota = errors.New("over quota: the tenant has too many jobs in this lane: wait until some have ended")
	// ErrQueueFull is wrapped by Submit's error when the queue as a whole
	// takes no more.
	ErrQueueFull = errors.New("queue full: it takes no job of anybody until some have ended, try again later")
	// ErrTooLarge is wrapped when a body exceeds what the queue carries.
	ErrTooLarge = errors.New("too large for the queue")
	// ErrTooManyLanes is wrapped by Submit's error when the job asks for a
	// combination that is new, and there are MaxLanes of them already.
	ErrTooManyLanes = errors.New("too many different requirements are in use")
	// ErrNoWorker is wrapped by Ask's error when nobody is there to answer.
	ErrNoWorker = errors.New("no worker answers")
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("queue is closed")
)

// ConflictError means that the tenant used the key before, for a job with
// another content.
type ConflictError struct {
	Key     string
	Earlier job.ID
}

// Error implements error.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("key %q belongs to job %s, which has another content", job.Printable(e.Key, 100), e.Earlier)
}

// UnplaceableError means that no live worker can run the job.
type UnplaceableError struct {
	Lane        string
	Requirement job.Requirement
	// Misfits are the live workers and why each cannot, nearest first; at
	// most maxMisfits of them.
	Misfits []Misfit
	// Workers is how many live workers there are.
	Workers int
}

// Misfit says why one worker cannot run a job.
type Misfit struct {
	Worker string
	Host   string
	// Backend is the offer that was compared; empty where the worker as a
	// whole is the reason.
	Backend string
	Reason  string
}

// Error implements error.
func (e *UnplaceableError) Error() string {
	if e.Workers == 0 {
		return fmt.Sprintf("no worker can run this job (lane %s): no worker is there", e.Lane)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "no worker can run this job (lane %s: %s)", e.Lane, describe(e.Requirement))
	for _, m := range e.Misfits {
		fmt.Fprintf(&text, "; %s", m)
	}
	if left := e.Workers - countWorkers(e.Misfits); left > 0 {
		fmt.Fprintf(&text, "; and %d more workers", left)
	}
	return text.String()
}

// String is one clause of UnplaceableError's text.
func (m Misfit) String() string {
	who := job.Printable(m.Host, 64)
	if m.Backend != "" {
		who += "/" + job.Printable(m.Backend, 64)
	}
	return who + ": " + job.Printable(m.Reason, 300)
}

// RemoteError is an answer that is an error.
type RemoteError struct {
	// Code is bad_request, not_found, unknown_verb, timeout, unavailable, internal, or
	// one that the answering side documents.
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Error implements error.
func (e *RemoteError) Error() string { return e.Code + ": " + e.Message }

// The codes that the queue itself gives.
const (
	CodeBadRequest  = "bad_request"
	CodeUnknownVerb = "unknown_verb"
	CodeTimeout     = "timeout"
	CodeTooLarge    = "too_large"
	CodeInternal    = "internal"
	// CodeUnavailable is of what may succeed a little later.
	CodeUnavailable = "unavailable"
)

func countWorkers(misfits []Misfit) int {
	seen := map[string]bool{}
	for _, m := range misfits {
		seen[m.Worker] = true
	}
	return len(seen)
}

// describe lists what a requirement asks, in the words of its fields.
func describe(r job.Requirement) string {
	parts := []string{"isolation at least " + string(r.Isolation)}
	add := func(name, value string) {
		if value != "" {
			parts = append(parts, name+" "+value)
		}
	}
	add("backend", strings.Join(r.Backends, " or "))
	add("os", r.OS)
	add("arch", r.Arch)
	add("image", job.Printable(r.Image, 100))
	if r.Network {
		add("network", "for guests")
	}
	for _, name := range slices.Sorted(maps.Keys(r.Labels)) {
		add("label "+name, job.Printable(r.Labels[name], 128))
	}
	limits := make([]string, len(r.Limits))
	for i, name := range r.Limits {
		limits[i] = string(name)
	}
	add("enforced limits", strings.Join(limits, ", "))
	return strings.Join(parts, ", ")
}
