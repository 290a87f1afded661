package provider

import (
	"context"
	"errors"
	"fmt"
	"time"

	"airlock/job"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"
)

// Namespace is a group of tools served together.
type Namespace struct {
	// Name is a letter, then at most 63 letters, digits, _ and -.
	Name        string
	Description string
	// Version is semantic, such as 1.2.0; the default is 0.0.0.
	Version string
	Tools   []Tool

	// Parallel is how many calls are handled at once: 64. The rest wait.
	Parallel int
	// Drain is how long the calls that are being handled may take to end
	// after Serve's context has ended: 10 s. Then theirs ends too.
	Drain time.Duration
	// ReplyPrefix is what the subject of an answer must begin with, so that
	// nobody can have answers published elsewhere: "_INBOX.".
	ReplyPrefix string
}

// Tool is one function that guests may call.
type Tool struct {
	Name, Description string
	// InputSchema is JSON Schema for an object, OutputSchema for the answer.
	// The order of the input's properties is that of positional arguments.
	InputSchema, OutputSchema jsontext.Value
	// Idempotent says that a call may be repeated without another effect,
	// ReadOnly that it has none.
	Idempotent, ReadOnly bool
	// Handler answers a call. It may be run many times at once. What it
	// returns is encoded as JSON; a jsontext.Value is taken as it is. A panic
	// is an error. It must return soon after ctx ends: Serve waits for it.
	Handler func(ctx context.Context, call Call) (any, error)
}

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
	// Deadline is when nobody waits for the answer any longer; the handler's
	// context ends then. It is zero if the caller named none.
	Deadline  time.Time
	Arguments jsontext.Value
}

// Func makes a tool of a function whose arguments are the fields of the struct
// In. The schemas are derived from In and Out; a field's description is its
// jsonschema tag, and a field with omitzero or omitempty may be absent. Func
// panics if In is no struct or has no schema, which shows at start.
func Func[In, Out any](name, description string, f func(ctx context.Context, in In) (Out, error)) Tool {
	input, output := schemaOf[In](name), schemaOf[Out](name)
	return Tool{
		Name: name, Description: description, InputSchema: input, OutputSchema: output,
		Handler: func(ctx context.Context, call Call) (any, error) {
			var in In
			if err := job.CheckJSON(call.Arguments); err != nil {
				return nil, Errorf(CodeBadArguments, "%v", err)
			}
			if err := job.DecodeStrict(call.Arguments, &in); err != nil {
				return nil, Errorf(CodeBadArguments, "%v", err)
			}
			return f(ctx, in)
		},
	}
}

func schemaOf[T any](tool string) jsontext.Value {
	schema, err := jsonschema.For[T](nil)
	if err != nil {
		panic(fmt.Sprintf("provider: schema of tool %s: %v", tool, err))
	}
	raw, err := json.Marshal(schema)
	if err != nil {
		panic(fmt.Sprintf("provider: schema of tool %s: %v", tool, err))
	}
	return raw
}

// check reports what is wrong with the namespace.
func (n *Namespace) check() error {
	if !job.ValidToolName(n.Name) {
		return fmt.Errorf("namespace %q: want a letter, then at most 63 letters, digits, _ and -", job.Printable(n.Name, 80))
	}
	seen := map[string]bool{}
	for _, t := range n.Tools {
		if err := t.check(); err != nil {
			return fmt.Errorf("tool %q: %w", job.Printable(t.Name, 80), err)
		}
		if seen[t.Name] {
			return fmt.Errorf("tool %q: is there twice", t.Name)
		}
		seen[t.Name] = true
	}
	if len(n.Tools) == 0 {
		return fmt.Errorf("namespace %q: has no tools", n.Name)
	}
	return nil
}

func (t *Tool) check() error {
	if !job.ValidToolName(t.Name) {
		return errors.New("want a letter, then at most 63 letters, digits, _ and -")
	}
	if t.Handler == nil {
		return errors.New("has no handler")
	}
	for _, schema := range []jsontext.Value{t.InputSchema, t.OutputSchema} {
		if schema == nil {
			continue
		}
		if err := checkSchema(schema); err != nil {
			return fmt.Errorf("schema: %w", err)
		}
	}
	return nil
}

// checkSchema finds at start what every worker would refuse.
func checkSchema(raw jsontext.Value) error {
	if err := job.CheckJSON(raw); err != nil {
		return err
	}
	var schema jsonschema.Schema
	if err := schema.UnmarshalJSON(raw); err != nil {
		return err
	}
	_, err := schema.Resolve(nil)
	return err
}

// metadataSize is about what the service's description of itself takes, which
// has to fit one message.
func (n *Namespace) metadataSize() int {
	size := 0
	for _, t := range n.Tools {
		for key, value := range t.metadata() {
			size += len(key) + len(value) + 32
		}
	}
	return size
}

func (t *Tool) metadata() map[string]string {
	return map[string]string{
		MetadataDescription:  t.Description,
		MetadataInputSchema:  string(t.InputSchema),
		MetadataOutputSchema: string(t.OutputSchema),
		MetadataIdempotent:   fmt.Sprint(t.Idempotent),
		MetadataReadOnly:     fmt.Sprint(t.ReadOnly),
	}
}
