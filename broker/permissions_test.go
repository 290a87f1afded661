package broker_test

import (
	"context"
	"testing"
	"time"

	"airlock/broker"
	"airlock/broker/provider"
	"airlock/job"
	"airlock/queue/natstest"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"
)

// A worker finds and calls the tools of a provider with the permissions that
// both have in a deployment, also after the server was away. What is refused
// fails the test.
func TestCallsWithPermissions(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	serving, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	nc := srv.ConnectAs("provider-" + natstest.Namespace)
	go func() { served <- provider.Serve(serving, nc, provider.Math()) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	worker := srv.ConnectAs("worker")
	catalogue := broker.NewCatalogue(worker, broker.CatalogueConfig{Log: zerolog.Nop()})
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- catalogue.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ran })

	add(t, catalogue)
	srv.Restart()
	add(t, catalogue)
}

// add calls math.add until it answers.
func add(t *testing.T, catalogue *broker.Catalogue) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for ctx.Err() == nil {
		if sum := tryAdd(ctx, catalogue); sum != "" {
			if sum != `{"sum":3}` {
				t.Errorf("got %s, want a sum of 3", sum)
			}
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
	t.Fatal("the provider did not answer")
}

func tryAdd(ctx context.Context, catalogue *broker.Catalogue) string {
	tool, err := catalogue.Find(ctx, natstest.Namespace, "add")
	if err != nil {
		return ""
	}
	answer, forget, err := catalogue.Call(tool, broker.Request{
		Tenant: "a", Job: job.NewID(), Attempt: 1, Seq: 1, Key: "k", Deadline: time.Now().Add(5 * time.Second),
		Arguments: jsontext.Value(`{"a":1,"b":2}`),
	})
	if err != nil {
		return ""
	}
	defer forget()
	select {
	case got := <-answer:
		return string(got.Body)
	case <-time.After(time.Second):
	case <-ctx.Done():
	}
	return ""
}
