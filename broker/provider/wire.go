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
)

// The error codes that the worker gives a meaning of its own.
const (
	// CodeTooLarge: no message carries the answer.
	CodeTooLarge = "too_large"
	// CodeDeadline: the call's deadline passed.
	CodeDeadline = "deadline_exceeded"
)

// SubjectPrefix begins the subject of every tool.
const SubjectPrefix = job.ToolSubjects

// Subject is where the calls of a tool go. Both names must be valid.
func Subject(namespace, tool string) string { return job.ToolSubject(namespace, tool) }
