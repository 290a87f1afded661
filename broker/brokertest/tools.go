package brokertest

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"airlock/broker"
	"airlock/broker/provider"

	"github.com/go-json-experiment/json/jsontext"
)

// Handler answers one call of a stub's tool. A nil answer never comes.
type Handler func(r broker.Request) *broker.Answer

// Tools are tools in memory. The zero value has none.
type Tools struct {
	// Max is what MaxArguments says: 1 MiB if zero.
	Max int

	mu       sync.Mutex
	tools    map[string]*broker.Tool // guarded by mu, as all below
	handlers map[string]Handler      // by namespace.name
	requests []broker.Request        // in the order they came
	running  sync.WaitGroup
}

var _ broker.Tools = (*Tools)(nil)

// Add offers a tool such as math.add.
func (s *Tools) Add(t testing.TB, name, inputSchema string, h Handler) {
	t.Helper()
	spec := broker.ToolSpec{}
	spec.Namespace, spec.Name, _ = strings.Cut(name, ".")
	if inputSchema != "" {
		spec.InputSchema = jsontext.Value(inputSchema)
	}
	s.AddSpec(t, spec, h)
}

// AddSpec is Add for a tool that is described in full.
func (s *Tools) AddSpec(t testing.TB, spec broker.ToolSpec, h Handler) {
	t.Helper()
	tool, err := broker.NewTool(spec)
	if err != nil {
		t.Fatalf("new tool: %v", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tools == nil {
		s.tools, s.handlers = map[string]*broker.Tool{}, map[string]Handler{}
	}
	s.tools[spec.Namespace+"."+spec.Name], s.handlers[spec.Namespace+"."+spec.Name] = tool, h
}

// Requests are those that were sent, in order.
func (s *Tools) Requests() []broker.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Wait returns when no handler runs any more.
func (s *Tools) Wait() { s.running.Wait() }

// List implements broker.Tools.
func (s *Tools) List(_ context.Context, namespaces []string) []*broker.Tool {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []*broker.Tool
	for _, t := range s.tools {
		if slices.Contains(namespaces, t.Namespace) {
			found = append(found, t)
		}
	}
	slices.SortFunc(found, func(a, b *broker.Tool) int {
		return strings.Compare(a.Namespace+"."+a.Name, b.Namespace+"."+b.Name)
	})
	return found
}

// Find implements broker.Tools.
func (s *Tools) Find(_ context.Context, namespace, name string) (*broker.Tool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.tools[namespace+"."+name]; t != nil {
		return t, nil
	}
	for _, t := range s.tools {
		if t.Namespace == namespace {
			return nil, broker.ErrUnknownTool
		}
	}
	return nil, broker.ErrNoProvider
}

// Call implements broker.Tools.
func (s *Tools) Call(t *broker.Tool, r broker.Request) (<-chan broker.Answer, func(), error) {
	s.mu.Lock()
	s.requests = append(s.requests, r)
	handler := s.handlers[t.Namespace+"."+t.Name]
	s.mu.Unlock()
	answers := make(chan broker.Answer, 1)
	s.running.Go(func() {
		if answer := handler(r); answer != nil {
			answers <- *answer
		}
	})
	return answers, func() {}, nil
}

// MaxArguments implements broker.Tools.
func (s *Tools) MaxArguments() int {
	if s.Max == 0 {
		return 1 << 20
	}
	return s.Max
}

// Body is an answer that went well.
func Body(body string) *broker.Answer { return &broker.Answer{Body: jsontext.Value(body)} }

// Math offers math.add and math.echo, answered by the sample provider's own
// code without NATS between.
func Math(t testing.TB) *Tools {
	t.Helper()
	s := &Tools{}
	math := provider.Math()
	responder, err := provider.NewResponder(math)
	if err != nil {
		t.Fatalf("new responder: %v", err)
	}
	for _, tool := range math.Tools {
		s.AddSpec(t, broker.ToolSpec{
			Namespace: math.Name, Name: tool.Name, Description: tool.Description,
			InputSchema: tool.InputSchema, OutputSchema: tool.OutputSchema,
		}, func(r broker.Request) *broker.Answer {
			return answer(responder.Answer(context.Background(), provider.Call{Tool: tool.Name, Arguments: r.Arguments}))
		})
	}
	return s
}

func answer(a provider.Answer) *broker.Answer {
	if a.Code != "" {
		return &broker.Answer{Code: broker.CodeProviderError, Message: a.Code + ": " + a.Message, Detail: a.Detail}
	}
	return &broker.Answer{Body: a.Body}
}
