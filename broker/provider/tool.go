package provider

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"time"

	"airlock/broker/internal/toolschema"
	"airlock/job"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"
	"github.com/rs/zerolog"
)

// Namespace is a group of tools served together. Only Name and Tools are
// needed.
type Namespace struct {
	// Name is a letter, then at most 63 letters, digits, _ and -.
	Name        string
	Description string
	// Version is semantic, such as 1.2.0; the default is 0.0.0.
	Version string
	Tools   []Tool
	// Log is told of panics and of changes of health.
	Log zerolog.Logger

	// Parallel is how many calls are handled at once: 64. The rest wait.
	Parallel int
	// Drain is how long the calls that are being handled may take to end
	// after Serve's context has ended: 10 s. Then theirs ends too.
	Drain time.Duration
	// MaxArguments and MaxAnswer bound one call's bytes. What workers and
	// NATS carry bounds them too: about 1 MiB and 8 MiB at most.
	MaxArguments, MaxAnswer int
	// TrustWorkers spares holding arguments against the input schema, which
	// workers have done. Func decodes strictly all the same, but then takes
	// an argument that is missing for the zero value.
	TrustWorkers bool
	// ReplyPrefix is what the subject of an answer must begin with, so that
	// nobody can have answers published elsewhere: "_INBOX.".
	ReplyPrefix string

	// Ready, if set, is called whenever the instance begins to take calls.
	Ready func()

	// Health, if set, is asked before serving and every HealthEvery (10 s)
	// from then on. While it fails, or takes longer than HealthEvery, the
	// instance takes no calls and is not found: the others get them.
	Health      func(ctx context.Context) error
	HealthEvery time.Duration
}

// Tool is one function that guests may call.
type Tool struct {
	Name, Description string
	// InputSchema is JSON Schema for an object, OutputSchema for the answer.
	// The order of the input's properties is that of positional arguments.
	// Arguments and answers that do not fit are errors.
	InputSchema, OutputSchema jsontext.Value
	// Idempotent says that a call may be repeated without another effect,
	// ReadOnly that it has none.
	Idempotent, ReadOnly bool
	// MaxParallel is how many calls of this tool are handled at once by this
	// instance, MaxRate how many are begun per second. The rest wait until
	// their deadline. Both are announced; zero is no bound.
	MaxParallel int
	MaxRate     float64
	// Handler answers a call. It may be run many times at once. What it
	// returns is encoded as JSON; a jsontext.Value is taken as it is. A panic
	// is an error. It must return soon after ctx ends: Serve waits for it.
	Handler func(ctx context.Context, call Call) (any, error)
}

// Func makes a tool of a function whose arguments are the fields of the struct
// In. The schemas are derived from In and Out; a field's description is its
// jsonschema tag, and a field with omitzero or omitempty may be absent. A
// guest's int, bytes and datetime are big.Int, []byte and time.Time, and the
// other way round; a jsontext.Value is any JSON. Func panics if In is no
// struct or has no schema, which shows at start.
func Func[In, Out any](name, description string, f func(ctx context.Context, in In) (Out, error)) Tool {
	if reflect.TypeFor[In]().Kind() != reflect.Struct {
		panic(fmt.Sprintf("provider: tool %s: its arguments are %v, want a struct", name, reflect.TypeFor[In]()))
	}
	return Tool{
		Name: name, Description: description,
		InputSchema: schemaOf[In](name, taken()), OutputSchema: schemaOf[Out](name, given()),
		Handler: func(ctx context.Context, call Call) (any, error) {
			in, err := decode[In](call.Arguments)
			if err != nil {
				return nil, Errorf(CodeBadArguments, "%v", err)
			}
			out, err := f(ctx, in)
			if err != nil {
				return nil, err
			}
			body, err := json.Marshal(out, json.Deterministic(true), encoding)
			if err != nil {
				return nil, fmt.Errorf("encode answer: %w", err)
			}
			return jsontext.Value(body), nil
		},
	}
}

func decode[In any](arguments jsontext.Value) (in In, err error) {
	if err := job.CheckJSON(arguments); err != nil {
		return in, err
	}
	return in, job.DecodeStrict(arguments, &in, decoding)
}

func schemaOf[T any](tool string, types map[reflect.Type]*jsonschema.Schema) jsontext.Value {
	schema, err := jsonschema.For[T](&jsonschema.ForOptions{TypeSchemas: types})
	if err != nil {
		panic(fmt.Sprintf("provider: schema of tool %s: %v", tool, err))
	}
	raw, err := json.Marshal(schema)
	if err != nil {
		panic(fmt.Sprintf("provider: schema of tool %s: %v", tool, err))
	}
	if string(raw) == "true" {
		return nil // which takes anything too
	}
	return raw
}

// check reports what is wrong with the namespace itself.
func (n *Namespace) check() error {
	switch {
	case !job.ValidToolName(n.Name):
		return fmt.Errorf("namespace %q: want a letter, then at most 63 letters, digits, _ and -", job.Printable(n.Name, 80))
	case len(n.Tools) == 0:
		return fmt.Errorf("namespace %q: has no tools", n.Name)
	case n.Parallel < 0 || n.Drain < 0 || n.MaxArguments < 0 || n.MaxAnswer < 0 || n.HealthEvery < 0:
		return fmt.Errorf("namespace %q: a bound is negative", n.Name)
	case n.MaxAnswer > MaxAnswer:
		return fmt.Errorf("namespace %q: MaxAnswer is %d, workers carry %d", n.Name, n.MaxAnswer, MaxAnswer)
	}
	return nil
}

// checked finds at start what every worker would refuse.
func (t Tool) checked() (*checkedTool, error) {
	switch {
	case !job.ValidToolName(t.Name):
		return nil, errors.New("want a letter, then at most 63 letters, digits, _ and -")
	case t.Handler == nil:
		return nil, errors.New("has no handler")
	case len(t.Description) > MaxDescription:
		return nil, fmt.Errorf("description: is %d bytes, the maximum is %d", len(t.Description), MaxDescription)
	case t.MaxParallel < 0 || !(t.MaxRate >= 0 && t.MaxRate <= maxRate):
		return nil, fmt.Errorf("MaxParallel or MaxRate is out of range: want 0 to %d, where 0 is no bound", maxRate)
	}
	checked := &checkedTool{Tool: t, gate: newGate(&t)}
	var err error
	if checked.input, err = checkSchema(t.InputSchema); err != nil {
		return nil, fmt.Errorf("input schema: %w", err)
	}
	if checked.output, err = checkSchema(t.OutputSchema); err != nil {
		return nil, fmt.Errorf("output schema: %w", err)
	}
	return checked, nil
}

// maxRate bounds MaxRate, whose burst is an int.
const maxRate = 1_000_000

func checkSchema(raw jsontext.Value) (*toolschema.Schema, error) {
	if raw == nil {
		return nil, nil
	}
	if len(raw) > MaxSchema {
		return nil, fmt.Errorf("is %d bytes, the maximum is %d", len(raw), MaxSchema)
	}
	return toolschema.Parse(raw)
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
	all := map[string]string{
		MetadataDescription:  t.Description,
		MetadataInputSchema:  string(t.InputSchema),
		MetadataOutputSchema: string(t.OutputSchema),
		MetadataIdempotent:   strconv.FormatBool(t.Idempotent),
		MetadataReadOnly:     strconv.FormatBool(t.ReadOnly),
	}
	if t.MaxRate > 0 {
		all[MetadataMaxRate] = strconv.FormatFloat(t.MaxRate, 'g', -1, 64)
	}
	if t.MaxParallel > 0 {
		all[MetadataMaxParallel] = strconv.Itoa(t.MaxParallel)
	}
	return all
}
