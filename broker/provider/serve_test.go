package provider_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"airlock/broker/brokertest"
	"airlock/broker/provider"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve runs a namespace on a server of its own until the test is over, and
// returns a caller's connection.
func serve(t *testing.T, ns provider.Namespace) (nc *nats.Conn, stop func() error) {
	t.Helper()
	server := brokertest.NATS(t, 64<<10)
	nc = brokertest.Connect(t, server)
	served := brokertest.Connect(t, server)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- provider.Serve(ctx, served, ns) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	t.Cleanup(func() { stop() })
	eventually(t, "the provider answers", func() bool {
		_, err := nc.Request("$SRV.PING."+ns.Name, nil, time.Second)
		return err == nil
	})
	awaitTools(t, nc, ns)
	return nc, stop
}

// awaitTools returns once the last tool answers: a service does before it has
// any.
func awaitTools(t *testing.T, nc *nats.Conn, ns provider.Namespace) {
	t.Helper()
	last := provider.Subject(ns.Name, ns.Tools[len(ns.Tools)-1].Name)
	eventually(t, "its last tool answers", func() bool {
		late := &nats.Msg{Subject: last, Header: nats.Header{provider.HeaderDeadline: {"2000-01-01T00:00:00Z"}}}
		_, err := nc.RequestMsg(late, time.Second)
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

func ask(t *testing.T, nc *nats.Conn, subject, arguments string) (body, code string) {
	t.Helper()
	answer, err := nc.Request(subject, []byte(arguments), time.Minute)
	if err != nil {
		t.Fatalf("request %s: %v", subject, err)
	}
	return string(answer.Data), answer.Header.Get(provider.HeaderErrorCode)
}

func tool(name string, handler func(ctx context.Context, call provider.Call) (any, error)) provider.Namespace {
	return provider.Namespace{Name: "n", Tools: []provider.Tool{{Name: name, Handler: handler}}}
}

func TestMath(t *testing.T) {
	t.Parallel()
	nc, _ := serve(t, provider.Math())
	nines := strings.Repeat("9", 1000)
	for _, tt := range []struct{ tool, arguments, body, code string }{
		{"add", `{"a":1,"b":2}`, `{"sum":3}`, ""},
		{"add", `{"a":"1","b":" 2 "}`, `{"sum":3}`, ""},
		{"add", `{"a":2512292042121000001,"b":1}`, `{"sum":2512292042121000002}`, ""},
		{"add", `{"a":` + nines + `,"b":"1"}`, `{"sum":1` + strings.Repeat("0", 1000) + `}`, ""},
		{"add", `{"a":0.1,"b":0.2}`, `{"sum":0.3}`, ""},
		{"add", `{"a":-0.5,"b":1e-3}`, `{"sum":-0.499}`, ""},
		{"add", `{"a":1.5,"b":"1.5"}`, `{"sum":3}`, ""},
		{"add", `{"a":1,"b":"0x10"}`, "", "bad_arguments"},
		{"add", `{"a":1,"b":"1/3"}`, "", "bad_arguments"},
		{"add", `{"a":1,"b":"1e9999999"}`, "", "bad_arguments"},
		{"add", `{"a":1,"b":""}`, "", "bad_arguments"},
		{"add", `{"a":1}`, "", "bad_arguments"},
		{"add", `{"a":1,"b":true}`, "", "bad_arguments"},
		{"add", `not JSON`, "", "bad_arguments"},
		{"echo", `{"text":"\u0000é"}`, `"\u0000é"`, ""},
		{"echo", `{"text":{"b":1,"a":[1e400]}}`, `{"b":1,"a":[1e400]}`, ""},
		{"echo", `{"text":1,"x":2}`, "", "bad_arguments"},
	} {
		body, code := ask(t, nc, "tools.math."+tt.tool, tt.arguments)
		if body != tt.body || code != tt.code {
			t.Errorf("%s %.60s: got %.60s and code %q, want %.60s and %q", tt.tool, tt.arguments, body, code, tt.body, tt.code)
		}
	}
}

type point struct {
	X int64  `json:"x" jsonschema:"to the right"`
	Y int64  `json:"y"`
	N string `json:"name,omitzero"`
}

func TestFunc(t *testing.T) {
	t.Parallel()
	swap := provider.Func("swap", "Swaps.", func(_ context.Context, p point) (point, error) {
		return point{X: p.Y, Y: p.X, N: p.N}, nil
	})
	want := `{"type":"object","properties":{"x":{"type":"integer","description":"to the right"},"y":{"type":"integer"},` +
		`"name":{"type":"string"}},"required":["x","y"],"additionalProperties":false}`
	if diff := brokertest.DiffJSON(want, string(swap.InputSchema)); diff != "" {
		t.Errorf("schema (-want +got):\n%s", diff)
	}
	// The order is that of positional arguments.
	if s := string(swap.InputSchema); strings.Index(s, `"x":{`) > strings.Index(s, `"y":{`) || strings.Index(s, `"y":{`) > strings.Index(s, `"name":{`) {
		t.Errorf("got schema %s, want the fields in their order", s)
	}
	nc, _ := serve(t, provider.Namespace{Name: "n", Tools: []provider.Tool{swap}})
	for arguments, want := range map[string][2]string{
		`{"x":9007199254740993,"y":-1}`: {`{"x":-1,"y":9007199254740993}`, ""},
		`{"x":1,"y":2,"z":3}`:           {"", "bad_arguments"},
		`{"X":1,"y":2}`:                 {"", "bad_arguments"},
		`{"x":1,"x":2,"y":2}`:           {"", "bad_arguments"},
		`{"x":1}`:                       {"", "bad_arguments"}, // which a decoder takes for y = 0
		`{"x":1.5,"y":2}`:               {"", "bad_arguments"},
	} {
		if body, code := ask(t, nc, "tools.n.swap", arguments); body != want[0] || code != want[1] {
			t.Errorf("%s: got %s and code %q, want %q", arguments, body, code, want)
		}
	}
}

func TestCallsAreHandledAtOnceWithinBounds(t *testing.T) { // B102
	t.Parallel()
	const parallel = 4
	var open, most atomic.Int32
	full := make(chan struct{})
	ns := tool("t", func(context.Context, provider.Call) (any, error) {
		now := open.Add(1)
		defer open.Add(-1)
		for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
		}
		if now == parallel {
			close(full)
		}
		<-full // which a serial provider never reaches
		return 1, nil
	})
	ns.Parallel = parallel
	nc, _ := serve(t, ns)
	var done sync.WaitGroup
	for range parallel {
		done.Go(func() {
			if body, code := ask(t, nc, "tools.n.t", `{}`); body != "1" || code != "" {
				t.Errorf("got %s and code %q, want 1", body, code)
			}
		})
	}
	done.Wait()
	if most.Load() != parallel {
		t.Errorf("got %d at once, want %d", most.Load(), parallel)
	}
}

func TestParallelIsABound(t *testing.T) {
	t.Parallel()
	var open, most atomic.Int32
	ns := tool("t", func(context.Context, provider.Call) (any, error) {
		now := open.Add(1)
		defer open.Add(-1)
		for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
		}
		return 1, nil
	})
	ns.Parallel = 2
	nc, _ := serve(t, ns)
	var done sync.WaitGroup
	for range 50 {
		done.Go(func() { ask(t, nc, "tools.n.t", `{}`) })
	}
	done.Wait()
	if most.Load() > 2 {
		t.Errorf("got %d at once, want at most 2", most.Load())
	}
}

func TestDrain(t *testing.T) {
	t.Parallel()
	const calls = 20
	var handled atomic.Int32
	started, release := make(chan struct{}, calls), make(chan struct{})
	ns := tool("t", func(ctx context.Context, _ provider.Call) (any, error) {
		started <- struct{}{}
		<-release
		defer handled.Add(1)
		return fmt.Sprint(ctx.Err()), nil
	})
	ns.Parallel = 2 // so that most calls still wait in the client
	nc, stop := serve(t, ns)
	inbox := nc.NewInbox()
	answers, err := nc.SubscribeSync(inbox)
	if err != nil {
		t.Fatalf("subscribe: %v", err)
	}
	for range calls {
		if err := nc.PublishRequest("tools.n.t", inbox, []byte(`{}`)); err != nil {
			t.Fatalf("publish: %v", err)
		}
	}
	<-started
	<-started
	if err := nc.Flush(); err != nil {
		t.Fatalf("flush: %v", err)
	}
	// Which calls the provider's client holds by now is its own affair; the
	// server has handed over all of them.
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	close(release)
	if err := <-stopped; err != nil {
		t.Errorf("Serve: got error %v, want none", err)
	}
	if handled.Load() != calls {
		t.Errorf("got %d calls handled when Serve returned, want %d", handled.Load(), calls)
	}
	for i := range calls {
		answer, err := answers.NextMsg(time.Minute)
		if err != nil || string(answer.Data) != `"<nil>"` {
			t.Fatalf("answer %d: got %v and error %v, want one from a context that has not ended", i, answer, err)
		}
	}
	if _, err := nc.Request("tools.n.t", nil, time.Minute); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("after the end: got error %v, want no responders", err)
	}
}

func TestDrainIsBounded(t *testing.T) {
	t.Parallel()
	started := make(chan struct{})
	ns := tool("t", func(ctx context.Context, _ provider.Call) (any, error) {
		close(started)
		<-ctx.Done()
		return nil, ctx.Err()
	})
	ns.Drain = time.Millisecond
	nc, stop := serve(t, ns)
	if err := nc.PublishRequest("tools.n.t", nc.NewInbox(), []byte(`{}`)); err != nil {
		t.Fatalf("publish: %v", err)
	}
	<-started
	if err := stop(); err != nil {
		t.Errorf("Serve: got error %v, want none", err)
	}
}

func TestBK40ForeignReplySubject(t *testing.T) {
	t.Parallel()
	var ran atomic.Int32
	nc, _ := serve(t, tool("t", func(context.Context, provider.Call) (any, error) { ran.Add(1); return 1, nil }))
	spy, err := nc.SubscribeSync("jobs.>")
	if err != nil {
		t.Fatalf("subscribe: %v", err)
	}
	for _, reply := range []string{"", "jobs.any", "_INBOXx.a", "$JS.ACK.a", "_INBOX.a.*", "_INBOX.>"} {
		if err := nc.PublishMsg(&nats.Msg{Subject: "tools.n.t", Reply: reply, Data: []byte(`{}`)}); err != nil {
			t.Fatalf("publish: %v", err)
		}
	}
	if body, _ := ask(t, nc, "tools.n.t", `{}`); body != "1" { // comes after them
		t.Errorf("got %s, want 1", body)
	}
	if ran.Load() != 1 {
		t.Errorf("got %d handlers run, want the one whose answer may be published", ran.Load())
	}
	if n, _, _ := spy.Pending(); n != 0 {
		t.Errorf("got %d answers outside the inboxes, want none", n)
	}
}

func TestExpiredCallsAreNotHandled(t *testing.T) {
	t.Parallel()
	var ran atomic.Int32
	nc, _ := serve(t, tool("t", func(context.Context, provider.Call) (any, error) { ran.Add(1); return 1, nil }))
	msg := &nats.Msg{Subject: "tools.n.t", Data: []byte(`{}`), Header: nats.Header{
		provider.HeaderDeadline: {time.Now().Add(-time.Second).UTC().Format(time.RFC3339Nano)},
	}}
	answer, err := nc.RequestMsg(msg, time.Minute)
	if err != nil || answer.Header.Get(provider.HeaderErrorCode) != provider.CodeDeadline || ran.Load() != 0 {
		t.Errorf("got %v, error %v and %d handlers run, want the deadline exceeded and none", answer, err, ran.Load())
	}
}

func TestClosedConnectionEndsServe(t *testing.T) {
	t.Parallel()
	nc := brokertest.Connect(t, brokertest.NATS(t, 0))
	done := make(chan error, 1)
	ns := tool("t", func(context.Context, provider.Call) (any, error) { return 1, nil })
	go func() { done <- provider.Serve(t.Context(), nc, ns) }()
	eventually(t, "the provider answers", func() bool {
		_, err := nc.Request("$SRV.PING.n", nil, time.Second)
		return err == nil
	})
	nc.Close()
	if err := <-done; !errors.Is(err, nats.ErrConnectionClosed) {
		t.Errorf("Serve: got error %v, want the connection closed", err)
	}
}

// many are tools whose descriptions exceed one message together.
func many(handler func(context.Context, provider.Call) (any, error)) (tools []provider.Tool) {
	for i := range 200 {
		tools = append(tools, provider.Tool{Name: fmt.Sprintf("t%d", i), Handler: handler, Description: strings.Repeat("x", provider.MaxDescription)})
	}
	return tools
}

func TestServeRefuses(t *testing.T) {
	t.Parallel()
	nc := brokertest.Connect(t, brokertest.NATS(t, 0))
	handler := func(context.Context, provider.Call) (any, error) { return 1, nil }
	good := provider.Tool{Name: "t", Handler: handler}
	for name, ns := range map[string]provider.Namespace{
		"no name":            {Tools: []provider.Tool{good}},
		"a dotted name":      {Name: "a.b", Tools: []provider.Tool{good}},
		"no tools":           {Name: "n"},
		"too much to say":    {Name: "n", Tools: many(handler)},
		"a wildcard":         {Name: "n", Tools: []provider.Tool{{Name: "*", Handler: handler}}},
		"a dunder":           {Name: "n", Tools: []provider.Tool{{Name: "__import__", Handler: handler}}}, // SP13
		"no handler":         {Name: "n", Tools: []provider.Tool{{Name: "t"}}},
		"a tool twice":       {Name: "n", Tools: []provider.Tool{good, good}},
		"no schema":          {Name: "n", Tools: []provider.Tool{{Name: "t", Handler: handler, InputSchema: []byte(`{"type":7}`)}}},
		"a bad version":      {Name: "n", Version: "one", Tools: []provider.Tool{good}},
		"an endless schema":  {Name: "n", Tools: []provider.Tool{{Name: "t", Handler: handler, InputSchema: []byte(`{"$ref":"#"}`)}}},
		"a large schema":     {Name: "n", Tools: []provider.Tool{{Name: "t", Handler: handler, InputSchema: []byte(`{"title":"` + strings.Repeat("x", provider.MaxSchema) + `"}`)}}},
		"a long description": {Name: "n", Tools: []provider.Tool{{Name: "t", Handler: handler, Description: strings.Repeat("x", provider.MaxDescription+1)}}},
		"a negative rate":    {Name: "n", Tools: []provider.Tool{{Name: "t", Handler: handler, MaxRate: -1}}},
		"a large answer":     {Name: "n", MaxAnswer: provider.MaxAnswer + 1, Tools: []provider.Tool{good}},
		"a remote schema":    {Name: "n", Tools: []provider.Tool{{Name: "t", Handler: handler, InputSchema: []byte(`{"$ref":"https://example.com"}`)}}},
	} {
		if err := provider.Serve(t.Context(), nc, ns); err == nil {
			t.Errorf("%s: got no error, want one", name)
		}
	}
}
