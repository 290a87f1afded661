package queue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"airlock/job"
	"airlock/queue"
	"airlock/queue/natstest"
)

func TestAskAndAnswer(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{})
	asker := attachAs(t, srv, "a")
	ctx := testContext(t)

	if err := asker.Ask(ctx, "a", "echo", nil, nil); !errors.Is(err, queue.ErrNoWorker) {
		t.Errorf("got error %v, want ErrNoWorker", err)
	}
	stop := background(t, func(ctx context.Context) error {
		return q.Answer(ctx, map[string]queue.Answer{
			"echo": func(_ context.Context, tenant string, request []byte) (any, error) {
				return tenant + string(request), nil
			},
			"big":  func(context.Context, string, []byte) (any, error) { return strings.Repeat("x", 3<<20), nil },
			"huge": func(context.Context, string, []byte) (any, error) { return strings.Repeat("x", 65<<20), nil },
			"field": func(context.Context, string, []byte) (any, error) {
				return nil, &job.FieldError{Field: "f", Reason: "r"}
			},
			"broken": func(context.Context, string, []byte) (any, error) { return nil, errors.New("password in here") },
			"away": func(context.Context, string, []byte) (any, error) {
				return nil, fmt.Errorf("register lane: %w", jetstream.ErrNoStreamResponse)
			},
			"gone": func(context.Context, string, []byte) (any, error) {
				return nil, &queue.RemoteError{Code: "not_found", Message: "no such job"}
			},
		})
	})
	defer stop()
	waitFor(t, "answers", func() bool { return asker.Ask(ctx, "a", "echo", nil, nil) == nil })

	var text string
	must(t, asker.Ask(ctx, "a", "echo", map[string]int{"x": 1}, &text))
	if want := `a{"x":1}`; text != want {
		t.Errorf("got answer %q, want %q", text, want)
	}
	must(t, asker.Ask(ctx, "a", "big", nil, &text))
	if len(text) != 3<<20 {
		t.Errorf("got an answer of %d bytes, want %d", len(text), 3<<20)
	}
	for verb, want := range map[string]queue.RemoteError{
		"field":   {Code: queue.CodeBadRequest, Message: "f: r"},
		"gone":    {Code: "not_found", Message: "no such job"},
		"broken":  {Code: queue.CodeInternal, Message: "the worker could not answer; its log says why"},
		"away":    {Code: queue.CodeUnavailable, Message: "the queue does not answer the worker now: ask again in some seconds"},
		"unknown": {Code: queue.CodeUnknownVerb, Message: "workers do not know unknown"},
		"huge":    {Code: queue.CodeTooLarge, Message: "the answer is 68157455 bytes, the maximum is 64MiB: ask for less"},
	} {
		var got *queue.RemoteError
		if err := asker.Ask(ctx, "a", verb, nil, nil); !errors.As(err, &got) || *got != want {
			t.Errorf("%s: got error %v, want %v", verb, err, &want)
		}
	}
	if err := asker.Ask(ctx, "a", "echo", strings.Repeat("x", 1<<20), nil); !errors.Is(err, queue.ErrTooLarge) {
		t.Errorf("got error %v for a large request, want ErrTooLarge", err)
	}
	for _, bad := range []struct{ tenant, verb string }{{"*", "echo"}, {"a.b", "echo"}, {"a", "*"}, {"a", "Echo"}, {"a", ""}} {
		if err := asker.Ask(ctx, bad.tenant, bad.verb, nil, nil); err == nil {
			t.Errorf("got no error for tenant %q verb %q", bad.tenant, bad.verb)
		}
	}
}

// Whoever asks chooses where the reply goes, and must not make a worker publish
// what he may not.
func TestAnswersGoToInboxesOnly(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q, asker := open(t, srv, queue.Config{}), attachAs(t, srv, "a")
	var mu sync.Mutex
	var asked []string
	stop := background(t, func(ctx context.Context) error {
		return q.Answer(ctx, map[string]queue.Answer{"echo": func(_ context.Context, _ string, request []byte) (any, error) {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, string(request))
			return "x", nil
		}})
	})
	defer stop()
	waitFor(t, "answers", func() bool { return asker.Ask(testContext(t), "a", "echo", "ready", nil) == nil })
	nc := srv.Connect()
	must(t, nc.PublishRequest("control.a.echo", "results.z.b."+job.NewID().String(), []byte("evil")))
	must(t, nc.Flush())
	must(t, asker.Ask(testContext(t), "a", "echo", "after", nil))
	mu.Lock()
	defer mu.Unlock()
	for _, request := range asked {
		if request == "evil" {
			t.Error("got a question answered whose reply goes to the results of another tenant")
		}
	}
}

func TestAnswerFinishesWhatItBegan(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q, asker := open(t, srv, queue.Config{}), attachAs(t, srv, "a")
	begun, release := make(chan struct{}), make(chan struct{})
	stop := background(t, func(ctx context.Context) error {
		return q.Answer(ctx, map[string]queue.Answer{"slow": func(ctx context.Context, _ string, _ []byte) (any, error) {
			close(begun)
			<-release
			return "done", ctx.Err()
		}})
	})
	waitFor(t, "subscription", func() bool { return srv.Subscriptions("control.") > 0 })
	answered := make(chan error)
	go func() { answered <- asker.Ask(testContext(t), "a", "slow", nil, nil) }()
	<-begun
	stopped := make(chan struct{})
	go func() { defer close(stopped); stop() }()
	waitFor(t, "unsubscription", func() bool { return srv.Subscriptions("control.") == 0 })
	close(release)
	must(t, <-answered)
	<-stopped
}
