package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"airlock/broker/internal/toolschema"
	"airlock/job"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"
)

// Responder answers the calls of a namespace exactly as Serve does, for a
// caller that brings them some other way; providertest is one. Its methods may
// be called from several goroutines.
type Responder struct {
	namespace Namespace
	tools     map[string]*checkedTool
	running   *running
}

// checkedTool is a tool with its schemas ready.
type checkedTool struct {
	Tool
	input, output *toolschema.Schema
	gate          gate
}

// NewResponder checks the namespace: names, sizes, and that workers can use
// the schemas.
func NewResponder(n Namespace) (*Responder, error) {
	n.Version = cmp.Or(n.Version, "0.0.0")
	n.Parallel = cmp.Or(n.Parallel, 64)
	n.Drain = cmp.Or(n.Drain, 10*time.Second)
	n.ReplyPrefix = cmp.Or(n.ReplyPrefix, nats.InboxPrefix)
	n.MaxArguments = cmp.Or(n.MaxArguments, MaxAnswer)
	n.MaxAnswer = cmp.Or(n.MaxAnswer, MaxAnswer)
	n.HealthEvery = cmp.Or(n.HealthEvery, 10*time.Second)
	if err := n.check(); err != nil {
		return nil, err
	}
	r := &Responder{namespace: n, tools: map[string]*checkedTool{}, running: newRunning()}
	for _, t := range n.Tools {
		checked, err := t.checked()
		if err != nil {
			return nil, fmt.Errorf("tool %q: %w", job.Printable(t.Name, 80), err)
		}
		if r.tools[t.Name] != nil {
			return nil, fmt.Errorf("tool %q: is there twice", t.Name)
		}
		r.tools[t.Name] = checked
	}
	return r, nil
}

// Answer runs the tool that the call names and returns what the worker is
// told. It never panics and never fails without a code. The bounds on how many
// calls run at once, and how often, are Serve's.
func (r *Responder) Answer(ctx context.Context, call Call) Answer {
	t := r.tools[call.Tool]
	if t == nil {
		return failed(fmt.Errorf("there is no tool %q", job.Printable(call.Tool, 80)))
	}
	ctx, done := r.running.begin(ctx, call.ID)
	defer done()
	if !call.Deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, call.Deadline)
		defer cancel()
	}
	if ctx.Err() != nil {
		return failed(unbegun(ctx))
	}
	body, err := r.handle(ctx, t, call)
	if err != nil {
		if errors.Is(context.Cause(ctx), ErrCancelled) {
			err = fmt.Errorf("%w: %w", ErrCancelled, err)
		}
		return failed(err)
	}
	return Answer{Body: body}
}

// unbegun says why a call was not begun whose context has ended.
func unbegun(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, ErrCancelled) || errors.Is(cause, context.DeadlineExceeded) {
		return fmt.Errorf("before the call began: %w", cause)
	}
	return Retryable(Errorf(CodeUnavailable, "the provider is ending"))
}

// Cancel ends the context of a call with ErrCancelled, also if the call has
// not begun yet. An id that is not known is none of this instance's.
func (r *Responder) Cancel(id string) { r.running.cancel(id) }

// handle runs the handler between both fences.
func (r *Responder) handle(ctx context.Context, t *checkedTool, call Call) (jsontext.Value, error) {
	if err := r.admit(t, call.Arguments); err != nil {
		return nil, err
	}
	body, err := run(context.WithValue(ctx, callKey{}, call), t, call)
	if err != nil {
		return nil, err
	}
	if len(body) > r.namespace.MaxAnswer {
		return nil, Errorf(CodeTooLarge, "the answer is %d bytes, the maximum is %d", len(body), r.namespace.MaxAnswer)
	}
	if err := job.CheckJSON(body); err != nil {
		return nil, fmt.Errorf("check answer: %w", err)
	}
	if t.output != nil {
		if err := t.output.Check(body); err != nil {
			return nil, fmt.Errorf("hold the answer against the output schema: %w", err)
		}
	}
	return body, nil
}

// admit holds the arguments against the input schema, as the worker has done.
func (r *Responder) admit(t *checkedTool, arguments jsontext.Value) error {
	if most := r.namespace.MaxArguments; len(arguments) > most {
		return Errorf(CodeBadArguments, "are %d bytes, the maximum is %d", len(arguments), most)
	}
	if r.namespace.TrustWorkers {
		return nil
	}
	if err := job.CheckJSON(arguments); err != nil {
		return Errorf(CodeBadArguments, "%v", err)
	}
	if arguments.Kind() != '{' {
		return Errorf(CodeBadArguments, "not an object")
	}
	if t.input == nil {
		return nil
	}
	if err := t.input.Check(arguments); err != nil {
		return Errorf(CodeBadArguments, "%v", err)
	}
	return nil
}

// run runs the handler and encodes what it returns.
func run(ctx context.Context, t *checkedTool, call Call) (body jsontext.Value, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	value, err := t.Handler(ctx, call)
	if err != nil {
		return nil, err
	}
	if raw, ok := value.(jsontext.Value); ok {
		return raw, nil
	}
	if body, err = json.Marshal(value, json.Deterministic(true)); err != nil {
		return nil, fmt.Errorf("encode answer: %w", err)
	}
	return body, nil
}
