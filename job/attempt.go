package job

import (
	"context"
	"errors"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Attempt is one try at a job by one worker. Its number is the fencing token:
// whoever writes for a job names it, and only the newest is heard.
type Attempt struct {
	Job     *Job
	Number  int
	Worker  string
	Backend string
	// Queued is when the job was submitted, Claimed when this try began.
	Queued  time.Time
	Claimed time.Time
	// TraceParent is the span that submitted the job, as a W3C traceparent; ""
	// if there is none, or a reconciler published the job again since.
	TraceParent string
}

// ErrFenced means that the attempt is no longer the job's newest, or that the
// job has ended. Who sees it writes nothing more and tells nobody.
var ErrFenced = errors.New("attempt was fenced off: another worker holds the job, or it has ended")

// ErrUnreachable is wrapped by the error of a service that cannot be reached
// now. Trying again later is right; nothing is known to be lost.
var ErrUnreachable = errors.New("service cannot be reached")

// The reasons for which a guest is ended before its time, as causes of its
// context. A worker tells them apart with context.Cause.
var (
	ErrTimeout     = errors.New("wall limit reached")
	ErrOutputLimit = errors.New("output limit reached")
	ErrCancelled   = errors.New("cancelled")
	ErrExpired     = errors.New("deadline passed")
	ErrLeaseLost   = errors.New("lease lost")
	ErrShutdown    = errors.New("worker is shutting down")
)

// Delivery is one arrival of a job at a worker. A job may be delivered more
// than once.
type Delivery struct {
	Job        *Job
	Generation int
	// Queued is when the message entered the queue.
	Queued time.Time
	// TraceParent is the Attempt's.
	TraceParent string
	// Behind says that others waited behind it when it was delivered.
	Behind bool
	// Ack takes the job out of the queue for good and waits until the queue
	// has confirmed it. Only who has committed its end, or knows that it has
	// ended, may call it.
	Ack func(ctx context.Context) error
	// Forget, if set, frees what the queue keeps of the job beside its message.
	// Only who has committed its end may call it, after Ack.
	Forget func(ctx context.Context) error
	// KeepAlive tells the queue that the job is still being worked on. Only
	// the holder of the lease may call it.
	KeepAlive func() error
	// Later gives the delivery back to be delivered again after a short
	// delay. Only who has not started the job may call it.
	Later func(delay time.Duration) error
	// Leave, if set, says that what is still to be done needs no slot, so
	// that the next job may have it. It may be called twice.
	Leave func()
}

// Report is what a guest's conversation came to: what the guest said, and what
// the broker counted.
type Report struct {
	// Ready is when the guest said hello, Sent when it had been given its
	// job, Spoke when its first frame after that arrived and Returned when
	// its result did. Each is zero if it never happened.
	Ready, Sent, Spoke, Returned time.Time

	Python string
	// Done is set when a result frame arrived. Value or Error is then what
	// it held.
	Done  bool
	Value jsontext.Value
	Lossy bool
	Error *Error
	// Breach says how the guest broke the channel's protocol; "" if it did
	// not.
	Breach string
	// ToolLimited and ResultLimited are set when the guest ran into those
	// limits.
	ToolLimited   bool
	ResultLimited bool
	// Artifacts are there once Done is.
	Artifacts []Artifact
	ToolCalls int
	ToolWait  time.Duration
	Events    []Event
	AuditHead string
	// Policy is the digest of the operator's rules; empty without them.
	Policy string
}

// Clock is how a conversation tells the worker when the guest's own time runs:
// from Start on, except between Pause and Resume, which nest.
type Clock struct {
	Start, Pause, Resume func()
}
