package broker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"airlock/broker"
	"airlock/broker/brokertest"
	"airlock/broker/provider"
	"airlock/job"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/rs/zerolog"
)

// network is a NATS server with a catalogue on it.
type network struct {
	server *server.Server
	nc     *nats.Conn // the worker's
	*broker.Catalogue
}

func newNetwork(t *testing.T, maxPayload int32) *network {
	t.Helper()
	n := &network{server: brokertest.NATS(t, maxPayload)}
	n.nc = brokertest.Connect(t, n.server)
	// A log that nobody reads must still be written, or its mistakes stay
	// hidden.
	n.Catalogue = broker.NewCatalogue(n.nc, broker.CatalogueConfig{
		Log: zerolog.New(zerolog.NewTestWriter(t)), Refresh: time.Hour, OnDemand: 1, // asks again each time
	})
	background(t, n.Catalogue.Run)
	return n
}

// background runs a service until the test is over.
func background(t *testing.T, run func(ctx context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("got error %v, want none", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// provide serves a namespace and waits until the catalogue knows it.
func (n *network) provide(t *testing.T, ns provider.Namespace) (stop func()) {
	t.Helper()
	nc := brokertest.Connect(t, n.server)
	stop = background(t, func(ctx context.Context) error { return provider.Serve(ctx, nc, ns) })
	n.await(t, ns.Name, ns.Tools[len(ns.Tools)-1].Name)
	return stop
}

func (n *network) await(t *testing.T, namespace, tool string) {
	t.Helper()
	eventually(t, namespace+"."+tool+" is known", func() bool {
		_, err := n.Find(t.Context(), namespace, tool)
		return err == nil
	})
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); {
		if time.Now().After(deadline) {
			t.Fatalf("got nothing in a minute, want: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

// serve begins a conversation whose calls go over the network.
func (n *network) serve(t *testing.T, grants string, cfg broker.Config) *bench {
	t.Helper()
	b := &bench{audit: &brokertest.Audit{}, attempt: brokertest.Attempt(t, grants)}
	cfg.Tools, cfg.Audit = n.Catalogue, b.audit
	guest, host := brokertest.NewSocketGuest(t)
	b.Guest = guest
	b.Running = brokertest.Serve(t, broker.New(cfg), b.attempt, host)
	return b
}

func one(name string, handler func(ctx context.Context, call provider.Call) (any, error)) provider.Namespace {
	return provider.Namespace{Name: "one", Tools: []provider.Tool{{Name: name, Handler: handler}}}
}

func TestCallOverNATS(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 0)
	n.provide(t, provider.Math())
	b := n.serve(t, "math.*", broker.Config{})
	if frame := b.Hello(); !strings.Contains(frame, `"name":"add","description":"Adds two numbers, exactly."`) {
		t.Errorf("got job frame %s, want math.add with its description", frame)
	}
	b.Call(1, "math.add", `{"a":2512292042121000001,"b":"1"}`) // B24
	b.Expect(`{"id":1,"ok":true,"value":{"sum":2512292042121000002}}`)
	b.Call(2, "math.echo", `{"text":2512292042121000001}`)
	b.Expect(`{"id":2,"ok":true,"value":2512292042121000001}`)
	b.Call(3, "math.add", `{"a":1}`)
	b.ExpectCode(3, broker.CodeBadArguments)
	b.Call(4, "math.sub", `{"a":1}`)
	b.ExpectCode(4, broker.CodeUnknownTool)
	report := b.end(t)
	if report.ToolCalls != 2 || report.ToolWait <= 0 {
		t.Errorf("got %d calls that took %s, want 2 and some time", report.ToolCalls, report.ToolWait)
	}
	if p := b.audit.Calls()[0].Provider; p == "" {
		t.Errorf("got no provider recorded, want the instance")
	}
}

func TestSubjectsAndHeaders(t *testing.T) { // BK21, BK23, BK24
	t.Parallel()
	n := newNetwork(t, 0)
	calls := make(chan *nats.Msg, 1000)
	canary := brokertest.Connect(t, n.server)
	n.provide(t, one("echo", func(_ context.Context, call provider.Call) (any, error) { return call.Arguments, nil }))
	b := n.serve(t, "one.echo", broker.Config{})
	b.Hello()
	if _, err := canary.Subscribe(">", func(m *nats.Msg) {
		if !strings.HasPrefix(m.Subject, "$SRV.") && !strings.HasPrefix(m.Subject, "_INBOX.") {
			calls <- m
		}
	}); err != nil {
		t.Fatalf("subscribe: %v", err)
	}
	if err := canary.Flush(); err != nil {
		t.Fatalf("flush: %v", err)
	}
	for i, name := range badNames {
		b.Send(fmt.Sprintf(`{"id":%d,"method":"call_tool","params":{"namespace":"one","name":"%s","arguments":{}}}`, i, name))
		b.Recv()
		b.Send(fmt.Sprintf(`{"id":%d,"method":"call_tool","params":{"namespace":"%s","name":"echo","arguments":{}}}`, i, name))
		b.Recv()
	}
	nasty := `{"Nats-Msg-Id":"1","x":"\r\nNats-Rollup: all\r\n\r\n","reply":"$JS.ACK.>"}`
	b.Call(1, "one.echo", nasty)
	b.Expect(`{"id":1,"ok":true,"value":` + nasty + `}`)
	b.Call(2, "one.echo", nasty) // on purpose: B100
	b.Recv()
	b.end(t)
	var got []*nats.Msg
	for range 2 {
		got = append(got, <-calls)
	}
	if err := canary.Flush(); err != nil {
		t.Fatalf("flush: %v", err)
	}
	if len(calls) != 0 {
		t.Errorf("got a message to %s, want only two to tools.one.echo", (<-calls).Subject)
	}
	for i, m := range got {
		seq := len(badNames)*2 + 1 + i
		id := b.attempt.Job.ID.String()
		key, deadline := m.Header.Get("Idempotency-Key"), m.Header.Get("Airlock-Deadline")
		want := nats.Header{
			"Airlock-Tenant": {"default"}, "Airlock-Job": {id}, "Airlock-Call": {fmt.Sprintf("%s.1.%d", id, seq)},
			"Airlock-Deadline": {deadline}, "Idempotency-Key": {key},
		}
		if diff := cmp.Diff(want, m.Header); diff != "" || m.Subject != "tools.one.echo" || string(m.Data) != nasty {
			t.Errorf("got %s to %s, want the arguments to tools.one.echo; headers (-want +got):\n%s", m.Data, m.Subject, diff)
		}
		if at, err := time.Parse(time.RFC3339Nano, deadline); err != nil || time.Until(at) > 30*time.Second {
			t.Errorf("got deadline %q, want a time within 30s", deadline)
		}
	}
	if got[0].Header.Get("Idempotency-Key") == got[1].Header.Get("Idempotency-Key") || got[0].Reply == got[1].Reply {
		t.Errorf("got the same key or reply for two calls, want different ones")
	}
}

func TestIdempotencyKeyIsStableOverAttempts(t *testing.T) {
	t.Parallel()
	keys := func(a *job.Attempt, order []string) map[string]string {
		tools := &brokertest.Tools{}
		tools.Add(t, "n.t", "", func(broker.Request) *broker.Answer { return brokertest.Body("1") })
		guest, host := brokertest.NewSocketGuest(t)
		running := brokertest.Serve(t, broker.New(broker.Config{Tools: tools, Audit: brokertest.Nothing{}}), a, host)
		guest.Hello()
		for i, arguments := range order {
			guest.Call(i, "n.t", arguments)
			guest.Recv()
		}
		guest.Finish(99, "1")
		running.Wait()
		found := map[string]string{}
		for i, r := range tools.Requests() {
			found[fmt.Sprintf("%s#%d", r.Arguments, strings.Count(strings.Join(order[:i], ""), string(r.Arguments)))] = r.Key
		}
		return found
	}
	first := brokertest.Attempt(t, "n.t")
	second := *first
	second.Number = 2
	a := keys(first, []string{`{"x":1}`, `{"x":2}`, `{"x":1}`})
	b := keys(&second, []string{`{"x":2}`, `{"x":1}`, `{"x":1}`})
	if diff := cmp.Diff(a, b); diff != "" || len(a) != 3 {
		t.Errorf("keys of two attempts (-first +second):\n%s", diff)
	}
	other := keys(brokertest.Attempt(t, "n.t"), []string{`{"x":1}`})
	if other[`{"x":1}#0`] == a[`{"x":1}#0`] {
		t.Errorf("got the same key for another job, want another")
	}
}

func TestProviderFailures(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 0)
	n.provide(t, provider.Namespace{Name: "odd", Tools: []provider.Tool{
		{Name: "typed", Handler: func(context.Context, provider.Call) (any, error) {
			return nil, fmt.Errorf("look up: %w", provider.Errorf("not_found", "no city %q", "Ürk\r\nX: y"))
		}},
		{Name: "plain", Handler: func(context.Context, provider.Call) (any, error) { return nil, errors.New("password=hunter2") }},
		{Name: "panics", Handler: func(context.Context, provider.Call) (any, error) { panic("password=hunter2") }},
		{Name: "large", Handler: func(context.Context, provider.Call) (any, error) { return strings.Repeat("x", 2<<20), nil }},
		{Name: "nan", Handler: func(context.Context, provider.Call) (any, error) { return map[string]any{"x": func() {}}, nil }},
	}})
	b := n.serve(t, "odd.*", broker.Config{})
	b.Hello()
	for i, tt := range []struct {
		tool, code, message string
	}{
		{"typed", "provider_error", `not_found: no city \"Ürk\\r\\nX: y\"`},
		{"plain", "provider_error", `internal`},
		{"panics", "provider_error", `internal`},
		{"large", "too_large", `the answer exceeds what one message carries: 2097154 bytes`}, // B98
		{"nan", "provider_error", `internal`},
	} {
		b.Call(i, "odd."+tt.tool, `{}`)
		want := fmt.Sprintf(`{"id":%d,"ok":false,"error":{"code":"%s","message":"%s"}}`, i, tt.code, tt.message)
		if got := b.Recv(); got != want {
			t.Errorf("%s: got %s, want %s", tt.tool, got, want)
		}
	}
	b.Call(9, "odd.typed", `{"x":"`+strings.Repeat("x", 2<<20)+`"}`) // B98
	b.ExpectCode(9, broker.CodeTooLarge)
	b.end(t)
	if detail := b.audit.Calls()[1].Detail; detail != "password=hunter2" {
		t.Errorf("got detail %q, want the provider's own words for operators", detail)
	}
}

// The handler's context ends with the call's deadline.
func TestTimeoutReachesTheProvider(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 0)
	ended := make(chan error, 100)
	n.provide(t, one("slow", func(ctx context.Context, _ provider.Call) (any, error) {
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return nil, ctx.Err()
	}))
	b := n.serve(t, "one.slow", broker.Config{CallTimeout: 100 * time.Millisecond})
	b.Hello()
	// A call that reaches the provider after its deadline starts no handler.
	eventually(t, "a handler ends", func() bool {
		b.Call(1, "one.slow", `{}`)
		b.ExpectCode(1, broker.CodeTimeout)
		return len(ended) > 0
	})
	// The worker's word may come first, where the clocks differ.
	if err := <-ended; !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, provider.ErrCancelled) {
		t.Errorf("got cause %v in the handler, want its deadline exceeded or the call cancelled", err)
	}
	b.end(t)
}

func TestNoResponder(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 0)
	stop := n.provide(t, one("echo", func(_ context.Context, call provider.Call) (any, error) { return call.Arguments, nil }))
	b := n.serve(t, "one.echo never.tool", broker.Config{})
	if frame := b.Hello(); !strings.Contains(frame, `{"namespace":"never","name":"tool"}`) {
		t.Errorf("got job frame %s, want the granted tool that nobody offers", frame)
	}
	stop() // the catalogue still believes in it
	b.Call(1, "one.echo", `{}`)
	b.ExpectCode(1, broker.CodeNoProvider)
	b.Call(2, "never.tool", `{}`)
	b.ExpectCode(2, broker.CodeNoProvider)
	b.end(t)
	if calls := b.audit.Calls(); calls[0].State != job.CallFailed || calls[1].State != job.CallRefused {
		t.Errorf("got states %s and %s, want one call sent in vain and one refused", calls[0].State, calls[1].State)
	}
}

func TestDisconnectedCallsAreNotKept(t *testing.T) { // B100
	t.Parallel()
	n := newNetwork(t, 0)
	stop := n.provide(t, provider.Math())
	b := n.serve(t, "math.*", broker.Config{})
	b.Hello()
	stop()
	n.server.Shutdown()
	eventually(t, "the connection is noticed to be gone", func() bool { return !n.nc.IsConnected() })
	b.Call(1, "math.add", `{"a":1,"b":2}`)
	b.ExpectCode(1, broker.CodeNoProvider)
	b.end(t)
}

func TestCallsSurviveAReconnect(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 0)
	n.provide(t, provider.Math())
	b := n.serve(t, "math.*", broker.Config{})
	b.Hello()
	b.Call(1, "math.add", `{"a":1,"b":2}`)
	b.Recv()
	if err := n.nc.ForceReconnect(); err != nil {
		t.Fatalf("reconnect: %v", err)
	}
	eventually(t, "a call succeeds again", func() bool {
		b.Call(2, "math.add", `{"a":1,"b":2}`)
		return strings.Contains(b.Recv(), `"sum":3`)
	})
	b.end(t)
}

func TestForgedAndSecondAnswersAreDropped(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 0)
	nc := brokertest.Connect(t, n.server)
	service, err := micro.AddService(nc, micro.Config{Name: "raw", Version: "1.0.0"})
	if err != nil {
		t.Fatalf("add service: %v", err)
	}
	defer service.Stop()
	err = service.AddEndpoint("twice", micro.HandlerFunc(func(r micro.Request) {
		prefix := r.Reply()[:strings.LastIndexByte(r.Reply(), '.')+1]
		nc.Publish(prefix+"00000000000000000000000000000000", []byte(`"forged"`))
		nc.Publish(prefix+"x", []byte(`"forged"`))
		r.Respond([]byte(`"first"`))
		r.Respond([]byte(`"second"`))
	}), micro.WithEndpointSubject("tools.raw.twice"))
	if err != nil {
		t.Fatalf("add endpoint: %v", err)
	}
	n.await(t, "raw", "twice")
	b := n.serve(t, "raw.twice", broker.Config{})
	b.Hello()
	for i := range 20 {
		b.Call(i, "raw.twice", `{}`)
		b.Expect(fmt.Sprintf(`{"id":%d,"ok":true,"value":"first"}`, i))
	}
	b.end(t)
}

// A provider in another language, or a careless one.
func TestRawErrors(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 0)
	nc := brokertest.Connect(t, n.server)
	service, err := micro.AddService(nc, micro.Config{Name: "raw", Version: "1.0.0"})
	if err != nil {
		t.Fatalf("add service: %v", err)
	}
	defer service.Stop()
	for name, handler := range map[string]micro.HandlerFunc{
		"code":    func(r micro.Request) { r.Error("500", "password=hunter2", []byte(`{"value":1}`)) },
		"strange": func(r micro.Request) { r.Error("a b\"c", "x", nil) },
		"text": func(r micro.Request) {
			r.Respond([]byte("1"), micro.WithHeaders(micro.Headers{"Nats-Service-Error": {"x"}}))
		},
		"nothing": func(r micro.Request) { r.Respond(nil) },
	} {
		if err := service.AddEndpoint(name, handler, micro.WithEndpointSubject("tools.raw."+name)); err != nil {
			t.Fatalf("add endpoint: %v", err)
		}
	}
	eventually(t, "all four tools are known", func() bool {
		n.Find(t.Context(), "raw", "unknown")
		return len(n.List(t.Context(), []string{"raw"})) == 4
	})
	b := n.serve(t, "raw.*", broker.Config{})
	b.Hello()
	for tool, want := range map[string]string{
		"code": `"provider_error","message":"500"`, "strange": `"provider_error","message":"error"`,
		"text": `"provider_error","message":"error"`, "nothing": `"bad_answer"`,
	} {
		b.Call(1, "raw."+tool, `{}`)
		if got := b.Recv(); !strings.Contains(got, `"code":`+want) {
			t.Errorf("%s: got %s, want %s", tool, got, want)
		}
	}
	b.end(t)
}
