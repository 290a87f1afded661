package broker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"airlock/broker"
	"airlock/broker/brokertest"
	"airlock/broker/provider"
	"airlock/job"

	"github.com/nats-io/nats.go"
)

// A call that nobody waits for any more ends in the provider: by the call's
// timeout, by the end of the job, and when the guest gives its result.
func TestCancelReachesTheProvider(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 0)
	began, ended := make(chan string, 100), make(chan error, 100)
	stuck := func(ctx context.Context, call provider.Call) (any, error) {
		began <- call.ID
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return nil, context.Cause(ctx)
	}
	n.provide(t, one("stuck", stuck))
	other := brokertest.Connect(t, n.server) // another instance: each hears all
	background(t, func(ctx context.Context) error { return provider.Serve(ctx, other, one("stuck", stuck)) })
	for name, end := range map[string]func(b *bench){
		"the job is cancelled": func(b *bench) { b.Cancel(errors.New("cancelled")) },
		"the guest is done":    func(b *bench) { b.Send(`{"id":2,"method":"result","params":{"value":1}}`) },
	} {
		b := n.serve(t, "one.stuck", broker.Config{Grace: time.Minute})
		b.Hello()
		b.Call(1, "one.stuck", `{}`)
		if id, want := <-began, b.attempt.Job.ID.String()+".1.1"; id != want {
			t.Errorf("%s: got call %s, want %s", name, id, want)
		}
		end(b)
		select {
		case cause := <-ended:
			if !errors.Is(cause, provider.ErrCancelled) {
				t.Errorf("%s: got cause %v, want the call cancelled", name, cause)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s: the handler still runs", name)
		}
		b.Close()
		b.Wait()
		if call := b.audit.Calls()[0]; call.State != job.CallLate || !strings.Contains(call.Detail, "cancelled") {
			t.Errorf("%s: got call %s with detail %q, want what the provider said of it", name, call.State, call.Detail)
		}
	}
}

func TestCallsThatAreAnsweredAreNotCancelled(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 0)
	n.provide(t, provider.Math())
	heard, err := n.nc.SubscribeSync(provider.CancelSubject(">"))
	if err != nil {
		t.Fatalf("subscribe: %v", err)
	}
	b := n.serve(t, "math.*", broker.Config{})
	b.Hello()
	b.Call(1, "math.add", `{"a":1,"b":2}`)
	b.Recv()
	b.Call(2, "math.add", `{"a":1}`)
	b.Recv()
	b.end(t)
	if err := n.nc.Flush(); err != nil {
		t.Fatalf("flush: %v", err)
	}
	if count, _, _ := heard.Pending(); count != 0 {
		t.Errorf("got %d calls cancelled, want none", count)
	}
}

func TestTraceParent(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 0)
	calls, err := n.nc.SubscribeSync("tools.one.t")
	if err != nil {
		t.Fatalf("subscribe: %v", err)
	}
	tool, err := broker.NewTool(broker.ToolSpec{Namespace: "one", Name: "t"})
	if err != nil {
		t.Fatal(err)
	}
	good := "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for sent, want := range map[string]string{good: good, "": "", "00-1\r\nX: y": "", good + "-x": ""} {
		_, forget, err := n.Call(tool, broker.Request{Tenant: "a", Job: job.NewID(), TraceParent: sent, Arguments: []byte(`{}`)})
		if err != nil {
			t.Fatalf("call: %v", err)
		}
		forget()
		msg, err := calls.NextMsg(time.Minute)
		if err != nil {
			t.Fatalf("next call: %v", err)
		}
		if got := msg.Header.Get(provider.HeaderTraceParent); got != want {
			t.Errorf("%q: got %q, want %q", sent, got, want)
		}
	}
}

// retryable says whether the same call may be made again: by what is known of
// the failure, and by what the tool and its provider say.
func TestRetryable(t *testing.T) {
	t.Parallel()
	tools := &brokertest.Tools{}
	failing := func(name string, idempotent, readOnly bool, a broker.Answer) {
		spec := broker.ToolSpec{Namespace: "n", Name: name, Idempotent: idempotent, ReadOnly: readOnly}
		tools.AddSpec(t, spec, func(broker.Request) *broker.Answer { return &a })
	}
	timeout := broker.Answer{Code: broker.CodeTimeout}
	failing("timeout", false, false, timeout)
	failing("idempotent", true, false, timeout)
	failing("reading", false, true, timeout)
	failing("nobody", false, false, broker.Answer{Code: broker.CodeNoProvider})
	failing("error", true, true, broker.Answer{Code: broker.CodeProviderError})
	failing("said", false, false, broker.Answer{Code: broker.CodeProviderError, Retryable: true, Detail: "busy"})
	failing("large", true, true, broker.Answer{Code: broker.CodeTooLarge, Retryable: true})
	b := begin(t, setup{tools: tools, grants: "n.* gone.t"})
	b.Hello()
	for name, want := range map[string]bool{
		"n.timeout": false, "n.idempotent": true, "n.reading": true, "n.nobody": true,
		"n.error": false, "n.said": true, "n.large": false, "gone.t": true, "other.t": false,
	} {
		b.Call(1, name, `{}`)
		if got := b.Recv(); strings.Contains(got, `"retryable":true`) != want {
			t.Errorf("%s: got %s, want retryable %v", name, got, want)
		}
	}
	b.end(t)
	// The provider's word is recorded, whatever the guest was told.
	for _, call := range b.audit.Calls() {
		want := map[string]string{"said": "retryable: busy", "large": "retryable"}[call.Name]
		if call.Detail != want && (want != "" || strings.HasPrefix(call.Detail, "retryable")) {
			t.Errorf("%s: got detail %q, want %q", call.Name, call.Detail, want)
		}
	}
}

func TestProvidersWordOnRetryingIsHeard(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]bool{"true": true, "": false, "yes": false} {
		header := nats.Header{provider.HeaderErrorCode: {"busy"}, provider.HeaderRetryable: {value}}
		if got := broker.ReadAnswer(&nats.Msg{Header: header}); got.Retryable != want || got.Message != "busy" {
			t.Errorf("%q: got %+v, want retryable %v", value, got, want)
		}
	}
	for _, code := range []string{"not_granted", "audit_failed", "timeout"} {
		got := broker.ReadAnswer(&nats.Msg{Header: nats.Header{provider.HeaderErrorCode: {code}}})
		if got.Message != "error" {
			t.Errorf("%s: got %q, want no code that is the worker's", code, fmt.Sprint(got.Message))
		}
	}
}
