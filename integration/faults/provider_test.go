//go:build linux

package faults_test

import (
	"context"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go/micro"

	"airlock/broker/provider"
)

const (
	namespace = "ledger"
	// spend has an effect each time it is called, look none that matters.
	spend, look = "spend", "look"
)

// books are a provider that writes down each call that it was asked for.
type books struct {
	mu sync.Mutex
	// by counts calls by their id, which names job, attempt and sequence, and
	// keys by their idempotency key. Guarded by mu, as all below.
	by   map[string]int
	keys map[string][]string
	tool map[string]string
}

func newBooks() *books {
	return &books{by: map[string]int{}, keys: map[string][]string{}, tool: map[string]string{}}
}

func (b *books) write(_ context.Context, call provider.Call) (any, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.by[call.ID]++
	b.keys[call.IdempotencyKey] = append(b.keys[call.IdempotencyKey], call.ID)
	b.tool[call.ID] = call.Tool
	return map[string]int{"calls": len(b.by)}, nil
}

// calls are copies of the books.
func (b *books) calls() (by map[string]int, tool map[string]string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.by), maps.Clone(b.tool)
}

// serve answers until the test ends. Where its connection is lost it stays
// what it is: the client reconnects for ever.
func (b *books) serve(t testing.TB, p *plant) {
	t.Helper()
	nc := p.connect(t, "provider")
	schema := jsontext.Value(`{"type": "object", "properties": {"n": {"type": "integer"}}}`)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- provider.Serve(ctx, nc, provider.Namespace{Name: namespace, Drain: time.Second, Tools: []provider.Tool{
			{Name: spend, Description: "has an effect", InputSchema: schema, Handler: b.write},
			{Name: look, Description: "has none", InputSchema: schema, Idempotent: true, Handler: b.write},
		}})
	}()
	t.Cleanup(func() { stop(); <-ended })
	subject, err := micro.ControlSubject(micro.PingVerb, namespace, "")
	if err != nil {
		t.Fatal(err)
	}
	until(t, patience, "the provider is there", func() bool {
		_, err := nc.Request(subject, nil, time.Second)
		return err == nil
	})
}
