package broker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"airlock/broker/internal/toolschema"
	"airlock/broker/provider"
	"airlock/job"

	"github.com/go-json-experiment/json/jsontext"
)

// The bounds of what a provider may announce of one tool.
const (
	MaxDescription = provider.MaxDescription
	MaxSchema      = provider.MaxSchema
)

// ToolSpec is a tool as its provider announces it.
type ToolSpec struct {
	Namespace, Name, Description string
	// InputSchema is JSON Schema, draft 2020-12 or 7, for an object; nil
	// accepts any object. OutputSchema is for readers.
	InputSchema, OutputSchema jsontext.Value
	Idempotent, ReadOnly      bool
}

// Tool is an announced tool that has been checked. It does not change and may
// be used from several goroutines.
type Tool struct {
	ToolSpec
	// Digest is the hex SHA-256 of both schemas.
	Digest string
	input  *toolschema.Schema

	described described
}

// NewTool checks what a provider announces: the names, the sizes, and that the
// schema can be used to check arguments without running away.
func NewTool(spec ToolSpec) (*Tool, error) {
	switch {
	case !job.ValidToolName(spec.Namespace):
		return nil, fmt.Errorf("namespace %q is not a name", job.Printable(spec.Namespace, 80))
	case !job.ValidToolName(spec.Name):
		return nil, fmt.Errorf("tool %q is not a name", job.Printable(spec.Name, 80))
	case len(spec.Description) > MaxDescription:
		return nil, fmt.Errorf("description: is %d bytes, the maximum is %d", len(spec.Description), MaxDescription)
	}
	for _, s := range []jsontext.Value{spec.InputSchema, spec.OutputSchema} {
		if len(s) > MaxSchema {
			return nil, fmt.Errorf("schema: is %d bytes, the maximum is %d", len(s), MaxSchema)
		}
	}
	t := &Tool{ToolSpec: spec, Digest: digest(spec.InputSchema, spec.OutputSchema)}
	t.Description = job.PrintableLines(spec.Description, MaxDescription)
	if spec.OutputSchema != nil {
		if err := job.CheckJSON(spec.OutputSchema); err != nil {
			return nil, fmt.Errorf("output schema: %w", err)
		}
	}
	if spec.InputSchema == nil {
		return t, nil
	}
	var err error
	if t.input, err = toolschema.Parse(spec.InputSchema); err != nil {
		return nil, fmt.Errorf("input schema: %w", err)
	}
	return t, nil
}

// unannounced stands in for a tool that is granted by name but that nobody
// offers now.
func unannounced(namespace, name string) *Tool {
	return &Tool{ToolSpec: ToolSpec{Namespace: namespace, Name: name}}
}

// CheckArguments reports whether a call's arguments are an object that fits
// the tool's schema. The error is for the guest: it quotes nothing but the
// schema and the arguments.
func (t *Tool) CheckArguments(arguments jsontext.Value) error {
	if arguments.Kind() != '{' {
		return errors.New("not an object")
	}
	if t.input == nil {
		return nil
	}
	return t.input.Check(arguments)
}

func digest(parts ...jsontext.Value) string {
	h := sha256.New()
	for _, part := range parts {
		writePrefixed(h, part)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// The errors by which Tools says that it does not have a tool.
var (
	// ErrNoProvider: nobody serves the namespace.
	ErrNoProvider = errors.New("nobody serves the namespace")
	// ErrUnknownTool: somebody does, but offers no such tool.
	ErrUnknownTool = errors.New("no such tool")
)

// Tools is what a conversation needs to find and call tools. Its methods may
// be called from several goroutines.
type Tools interface {
	// List returns the tools of these namespaces, sorted by namespace and
	// name. It may look for a namespace that it has not seen, but not for
	// long.
	List(ctx context.Context, namespaces []string) []*Tool
	// Find returns one tool, or ErrNoProvider or ErrUnknownTool. It may look
	// for a tool that it has not seen, but not for long.
	Find(ctx context.Context, namespace, name string) (*Tool, error)
	// Call sends one request and returns at once. At most one answer arrives
	// on the channel, however late, until forget is called; forget must be
	// called, and may be called twice. An error means that nothing was sent.
	Call(t *Tool, r Request) (answer <-chan Answer, forget func(), err error)
	// MaxArguments is how many bytes of arguments one request carries.
	MaxArguments() int
}

// Canceller is a Tools that can tell a provider that nobody waits any more for
// the answer to a request that was sent. Of the request it needs Job, Attempt
// and Seq. It returns at once, and what it says may get lost; an answer may
// still come.
type Canceller interface {
	Cancel(t *Tool, r Request)
}

// Request is one call on its way to a provider. Nothing in it but Arguments
// was written by the guest.
type Request struct {
	Tenant  string
	Job     job.ID
	Attempt int
	Seq     int
	// Key is the same for the same call in a later attempt of the job.
	Key       string
	Deadline  time.Time
	Arguments jsontext.Value
	// TraceParent is the W3C trace context that the call belongs to; empty
	// is none.
	TraceParent string
}

// Answer is what came back: a body that nobody has checked, or a code of ours
// with its message for the guest and its detail for operators.
type Answer struct {
	Body     jsontext.Value
	Code     Code
	Message  string
	Detail   string
	Provider string
	// Retryable is the provider's word that the same call may be made again.
	Retryable bool
}
