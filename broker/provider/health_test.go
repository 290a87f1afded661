package provider_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"airlock/broker/brokertest"
	"airlock/broker/provider"

	"github.com/nats-io/nats.go"
)

// An instance that is not well is not found and gets no calls; it comes back
// by itself, and what it was handling when it fell ill is finished.
func TestHealth(t *testing.T) {
	t.Parallel()
	server := brokertest.NATS(t, 0)
	nc, served := brokertest.Connect(t, server), brokertest.Connect(t, server)
	var ill atomic.Bool
	ill.Store(true)
	release, began := make(chan struct{}), make(chan struct{}, 1)
	ns := tool("t", func(context.Context, provider.Call) (any, error) {
		began <- struct{}{}
		<-release
		return 1, nil
	})
	ns.HealthEvery = 5 * time.Millisecond
	asked := make(chan struct{}, 100_000)
	ns.Health = func(context.Context) error {
		select {
		case asked <- struct{}{}:
		default:
		}
		if ill.Load() {
			panic("not well") // which counts as an error
		}
		return nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- provider.Serve(ctx, served, ns) }()
	<-asked
	if err := ping(t, nc); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("an ill provider: got error %v, want no responders", err)
	}
	ill.Store(false)
	eventually(t, "the provider is well", func() bool { return ping(t, nc) == nil })
	awaitTools(t, nc, ns)
	answered := make(chan *nats.Msg, 1)
	go func() {
		msg, err := nc.Request("tools.n.t", []byte(`{}`), time.Minute)
		if err != nil {
			t.Errorf("request: %v", err)
		}
		answered <- msg
	}()
	<-began
	ill.Store(true)
	eventually(t, "the provider is gone", func() bool { return errors.Is(ping(t, nc), nats.ErrNoResponders) })
	close(release)
	if msg := <-answered; msg == nil || string(msg.Data) != "1" {
		t.Errorf("got %v, want the answer of a call that ran when health failed", msg)
	}
	ill.Store(false)
	eventually(t, "the provider is back", func() bool { return ping(t, nc) == nil })
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Serve: got error %v, want none", err)
	}
}

func ping(t *testing.T, nc *nats.Conn) error {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return provider.Ping(ctx, nc, "n")
}

func TestServeEndsWhileIll(t *testing.T) {
	t.Parallel()
	nc := brokertest.Connect(t, brokertest.NATS(t, 0))
	ctx, cancel := context.WithCancel(t.Context())
	ns := tool("t", func(context.Context, provider.Call) (any, error) { return 1, nil })
	ns.Health = func(context.Context) error { cancel(); return errors.New("not well") }
	if err := provider.Serve(ctx, nc, ns); err != nil {
		t.Errorf("Serve: got error %v, want none", err)
	}
}
