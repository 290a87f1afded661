package provider

import "airlock/job"

// The headers of a call. All are written by the worker; none holds a byte of
// the guest's.
const (
	// HeaderTenant is whose job the call belongs to. It is what a provider
	// may base authority on; arguments are not.
	HeaderTenant = "Airlock-Tenant"
	// HeaderJob is the job's id, HeaderCall <job>.<attempt>.<sequence>.
	HeaderJob  = "Airlock-Job"
	HeaderCall = "Airlock-Call"
	// HeaderDeadline is when nobody waits for the answer any longer, in
	// RFC 3339 with nanoseconds.
	HeaderDeadline = "Airlock-Deadline"
	// HeaderIdempotencyKey is the same when a later attempt of the job makes
	// the same call, and different for two equal calls on purpose.
	HeaderIdempotencyKey = "Idempotency-Key"
	// HeaderTraceParent is the W3C trace context of the call, where the
	// worker traces.
	HeaderTraceParent = "traceparent"
)

// The headers of an answer. An answer with HeaderErrorCode is an error,
// whatever its body.
const (
	// HeaderError and HeaderErrorCode are those of NATS micro services. The
	// description is kept for operators; the guest sees the code.
	HeaderError     = "Nats-Service-Error"
	HeaderErrorCode = "Nats-Service-Error-Code"
	// HeaderMessage is what the guest is told beside the code. Whoever sets
	// it says that it holds no secret.
	HeaderMessage = "Airlock-Message"
	// HeaderRetryable is "true" on an error after which the same call may be
	// made again without harm.
	HeaderRetryable = "Airlock-Retryable"
	// HeaderProvider names the instance that answered.
	HeaderProvider = "Airlock-Provider"
)

// The metadata of an endpoint that is a tool.
const (
	MetadataDescription  = "description"
	MetadataInputSchema  = "input_schema"
	MetadataOutputSchema = "output_schema"
	MetadataIdempotent   = "idempotent"
	MetadataReadOnly     = "read_only"
	// MetadataMaxRate and MetadataMaxParallel say what one instance takes:
	// calls per second, and at once. They are absent where it has no bound.
	MetadataMaxRate     = "max_rate"
	MetadataMaxParallel = "max_parallel"
)

// The bounds of a tool. A worker refuses a tool that exceeds the first two,
// and an answer that exceeds the third.
const (
	MaxDescription = 4 << 10
	MaxSchema      = 64 << 10
	// MaxAnswer is what the frame holds that carries an answer to the guest.
	MaxAnswer = 8<<20 - 64
)

// SubjectPrefix begins the subject of every tool.
const SubjectPrefix = job.ToolSubjects

// Subject is where the calls of a tool go. Both names must be valid.
func Subject(namespace, tool string) string { return job.ToolSubject(namespace, tool) }

// CancelSubject is where the worker says that nobody waits for a call any
// more: an empty message with HeaderCall. Every instance subscribes to it
// without a group, since the worker does not know which one has the call.
func CancelSubject(namespace string) string { return job.ToolCancel(namespace) }
