package broker

// The names of log fields.
const (
	fieldJob       = "job"
	fieldAttempt   = "attempt"
	fieldCall      = "call"
	fieldNamespace = "namespace"
	fieldTool      = "tool"
	fieldSchema    = "schema"
	fieldSubject   = "subject"
	fieldReason    = "reason"
	fieldState     = "state"
	fieldCount     = "count"
)
