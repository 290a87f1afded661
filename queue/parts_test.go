package queue_test

import (
	"context"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"airlock/queue"
	"airlock/queue/natstest"
)

// A long answer comes in parts, and is stored only for who does not say that he
// takes them.
func TestLongAnswersComeInParts(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q, asker := open(t, srv, queue.Config{}), attachAs(t, srv, "a")
	ctx := testContext(t)
	stop := background(t, func(ctx context.Context) error {
		return q.Answer(ctx, map[string]queue.Answer{"big": func(context.Context, string, []byte) (any, error) {
			return strings.Repeat("0123456789", 300_000), nil
		}})
	})
	defer stop()
	waitFor(t, "subscription", func() bool { return srv.Subscriptions("control.") > 0 })

	var text string
	must(t, asker.Ask(ctx, "a", "big", nil, &text))
	if text != strings.Repeat("0123456789", 300_000) {
		t.Errorf("got an answer of %d bytes that is another, want 3,000,000", len(text))
	}
	nc := srv.Connect()
	js, err := jetstream.New(nc)
	must(t, err)
	if stored := storedOutputs(t, ctx, js); stored != 0 {
		t.Errorf("got %d stored parts of an answer that was sent in parts, want none", stored)
	}
	reply, err := nc.Request("control.a.big", []byte("null"), patience)
	must(t, err)
	if len(reply.Data) != 0 || reply.Header.Get("Airlock-Blob") == "" {
		t.Errorf("got %d bytes and headers %v for a question that asks for no parts, want a blob", len(reply.Data), reply.Header)
	}
	if stored := storedOutputs(t, ctx, js); stored == 0 {
		t.Error("got nothing stored for a question that asks for no parts")
	}
}

func storedOutputs(t *testing.T, ctx context.Context, js jetstream.JetStream) uint64 {
	t.Helper()
	s, err := js.Stream(ctx, "OUTPUTS")
	must(t, err)
	return s.CachedInfo().State.Msgs
}
