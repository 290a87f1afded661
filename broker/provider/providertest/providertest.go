// Package providertest lets a tool be tested without NATS, a worker or a
// guest. What it calls runs through the same checks as in a real provider: the
// schemas, the deadline, cancel, panics, and the sizes.
//
//	p := providertest.New(t, namespace)
//	sum := providertest.Call[int](p, "add", map[string]int{"a": 1, "b": 2})
package providertest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"airlock/broker/provider"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// patience is how long a call has that names no deadline.
const patience = 30 * time.Second

// Provider is a namespace under test. Its methods may be called from several
// goroutines, but only the test's own may be failed.
type Provider struct {
	t         testing.TB
	namespace string
	responder *provider.Responder
	calls     atomic.Int64
}

// New checks the namespace as Serve does, and fails the test for what Serve
// would refuse.
func New(t testing.TB, n provider.Namespace) *Provider {
	t.Helper()
	responder, err := provider.NewResponder(n)
	if err != nil {
		t.Fatalf("the namespace cannot be served: %v", err)
	}
	return &Provider{t: t, namespace: n.Name, responder: responder}
}

// Answer makes one call as a worker does, for tenant "default" and with an id
// and key of its own, and returns what the worker is told. The arguments are
// encoded as JSON; a string or jsontext.Value is taken as it is. The edits are
// made last.
func (p *Provider) Answer(tool string, arguments any, edits ...func(*provider.Call)) provider.Answer {
	n := p.calls.Add(1)
	call := provider.Call{
		Namespace: p.namespace, Tool: tool, Tenant: "default", Job: "00000000-0000-7000-8000-000000000000",
		ID:             fmt.Sprintf("00000000-0000-7000-8000-000000000000.1.%d", n),
		IdempotencyKey: fmt.Sprintf("key-%d", n),
		Deadline:       time.Now().Add(patience),
		Arguments:      p.encoded(arguments),
	}
	for _, edit := range edits {
		edit(&call)
	}
	return p.responder.Answer(context.Background(), call)
}

func (p *Provider) encoded(arguments any) jsontext.Value {
	switch arguments := arguments.(type) {
	case string:
		return jsontext.Value(arguments)
	case jsontext.Value:
		return arguments
	}
	body, err := json.Marshal(arguments)
	if err != nil {
		p.t.Errorf("encode arguments: %v", err)
	}
	return body
}

// Cancel says that nobody waits for a call any more, as a worker does.
func (p *Provider) Cancel(callID string) { p.responder.Cancel(callID) }

// Call makes a call that must go well, and returns its decoded answer.
func Call[Out any](p *Provider, tool string, arguments any, edits ...func(*provider.Call)) (out Out) {
	p.t.Helper()
	answer := p.Answer(tool, arguments, edits...)
	if answer.Code != "" {
		p.t.Fatalf("%s.%s: got error %s: %s (%s), want none", p.namespace, tool, answer.Code, answer.Message, answer.Detail)
	}
	if err := json.Unmarshal(answer.Body, &out); err != nil {
		p.t.Fatalf("%s.%s: decode answer %.200s: %v", p.namespace, tool, answer.Body, err)
	}
	return out
}

// WantCode makes a call that must fail with the code, and returns what else is
// said of it.
func (p *Provider) WantCode(code, tool string, arguments any, edits ...func(*provider.Call)) provider.Answer {
	p.t.Helper()
	answer := p.Answer(tool, arguments, edits...)
	if answer.Code != code {
		p.t.Fatalf("%s.%s: got answer %.200s, code %q (%s), want code %q",
			p.namespace, tool, answer.Body, answer.Code, answer.Detail, code)
	}
	return answer
}
