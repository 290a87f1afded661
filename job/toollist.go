package job

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// ToolsQuery asks a worker for the tools of a namespace, or of all.
type ToolsQuery struct {
	Namespace string `json:"namespace,omitzero"`
	// Since is from when on calls are summed up; a day ago if zero.
	Since time.Time `json:"since,omitzero"`
	// Schemas adds the tools' schemas; Refused asks for the announcements
	// that are no tools, and for nothing else.
	Schemas bool `json:"schemas,omitzero"`
	Refused bool `json:"refused,omitzero"`
}

// ToolList is the answer, with one of its lists.
type ToolList struct {
	Tools   []ListedTool  `json:"tools"`
	Refused []RefusedTool `json:"refused,omitzero"`
}

// ListedTool is a tool as a worker knows it, and how the calls of the tenant
// that asks went.
type ListedTool struct {
	Namespace   string `json:"namespace"`
	Name        string `json:"name"`
	Description string `json:"description,omitzero"`
	// The schemas are there when they are asked for.
	InputSchema  jsontext.Value `json:"input_schema,omitzero"`
	OutputSchema jsontext.Value `json:"output_schema,omitzero"`
	// ReadOnly and Idempotent are the provider's word.
	ReadOnly     bool   `json:"read_only"`
	Idempotent   bool   `json:"idempotent"`
	SchemaDigest string `json:"schema_digest"`
	Providers    int    `json:"providers"`
	// Approval: calls wait for a person.
	Approval bool `json:"approval,omitzero"`
	// Breaker is closed, open or half-open in the worker that answers; empty
	// where the operator's rules have none.
	Breaker string `json:"breaker,omitzero"`

	Calls  int      `json:"calls"`
	Errors int      `json:"errors"`
	P50    Duration `json:"p50,omitzero"`
	P99    Duration `json:"p99,omitzero"`
}

// RefusedTool is an announcement that is no tool, and why.
type RefusedTool struct {
	Subject   string `json:"subject"`
	Reason    string `json:"reason"`
	Providers int    `json:"providers"`
}
