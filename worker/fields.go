package worker

// The log fields of this package; the words are those of columns and JSON.
const (
	fieldJob     = "job"
	fieldAttempt = "attempt"
	fieldTenant  = "tenant"
	fieldBatch   = "batch"
	fieldBackend = "backend"
	fieldStatus  = "status"
	fieldState   = "state"
	fieldVerdict = "verdict"
	fieldWall    = "wall"
	fieldCalls   = "tool_calls"
	fieldReason  = "reason"
	fieldHeld    = "held"
	fieldLane    = "lane"
	fieldCount   = "count"
	fieldStack   = "stack"

	fieldVersion   = "version"
	fieldIsolation = "isolation"
)
