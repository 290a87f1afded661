package broker_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"airlock/broker"
	"airlock/broker/brokertest"
	"airlock/broker/provider"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

func TestDiscoveryRefuses(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 0)
	nc := brokertest.Connect(t, n.server)
	service, err := micro.AddService(nc, micro.Config{Name: "hostile", Version: "1.0.0"})
	if err != nil {
		t.Fatalf("add service: %v", err)
	}
	defer service.Stop()
	add := func(subject string, metadata map[string]string) {
		t.Helper()
		err := service.AddEndpoint("e", micro.HandlerFunc(func(r micro.Request) { r.Respond([]byte("1")) }),
			micro.WithEndpointSubject(subject), micro.WithEndpointMetadata(metadata))
		if err != nil {
			t.Fatalf("add endpoint %s: %v", subject, err)
		}
	}
	add("tools.x", nil)
	add("tools.x.y.z", nil)
	add("tools.x.*", nil)
	add("tools.__x__.y", nil)
	add("tools.x.__import__", nil)
	add("elsewhere.x.y", nil)
	add("tools.x.remote", map[string]string{"input_schema": `{"$ref":"https://example.com/s"}`})
	add("tools.x.loops", map[string]string{"input_schema": `{"$ref":"#"}`})
	add("tools.x.broken", map[string]string{"input_schema": `{`})
	add("tools.x.wordy", map[string]string{"description": strings.Repeat("x", broker.MaxDescription+1)})
	add("tools.x.good", map[string]string{"description": "a\x1b[2Jb", "idempotent": "true"})
	n.await(t, "x", "good")
	tools := n.Tools(t.Context())
	if len(tools) != 1 || tools[0].Description != `a\x1b[2Jb` || !tools[0].Idempotent || tools[0].ReadOnly {
		t.Errorf("got tools %+v, want x.good alone", tools)
	}
	if _, err := n.Find(t.Context(), "x", "remote"); !errors.Is(err, broker.ErrUnknownTool) {
		t.Errorf("got error %v, want ErrUnknownTool", err)
	}
	if _, err := n.Find(t.Context(), "y", "z"); !errors.Is(err, broker.ErrNoProvider) {
		t.Errorf("got error %v, want ErrNoProvider", err)
	}
}

// While two versions of a provider run, the schema that was known first stays.
func TestSchemasOfTwoVersions(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 0)
	version := func(schema string) provider.Namespace {
		ns := one("t", func(context.Context, provider.Call) (any, error) { return 1, nil })
		ns.Tools[0].InputSchema = jsontext.Value(schema)
		return ns
	}
	stop := n.provide(t, version(`{"required":["old"]}`))
	// A newer one, whose id comes first.
	nc := brokertest.Connect(t, n.server)
	announcement := `{"id":"!","endpoints":[{"subject":"tools.one.t","metadata":{"input_schema":"{\"required\":[\"new\"]}"}}]}`
	if _, err := nc.Subscribe("$SRV.INFO", func(m *nats.Msg) { m.Respond([]byte(announcement)) }); err != nil {
		t.Fatalf("subscribe: %v", err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatalf("flush: %v", err)
	}
	schema := func() string {
		n.Find(t.Context(), "no", "such") // asks all providers again
		tool, err := n.Find(t.Context(), "one", "t")
		if err != nil {
			t.Fatalf("find: %v", err)
		}
		return string(tool.InputSchema)
	}
	for range 3 {
		if got := schema(); got != `{"required":["old"]}` {
			t.Errorf("got schema %s, want the old one", got)
		}
	}
	stop()
	eventually(t, "the new schema is taken", func() bool { return schema() == `{"required":["new"]}` })
}

// An instance that answers later than the others is as much there as they are:
// its tools neither go nor change.
func TestASlowInstanceIsWaitedFor(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 0)
	var slow atomic.Bool
	answer := func(id string, late bool) {
		nc := brokertest.Connect(t, n.server)
		if _, err := nc.Subscribe("$SRV.INFO", func(m *nats.Msg) {
			if late && slow.Load() {
				time.Sleep(400 * time.Millisecond)
			}
			m.Respond([]byte(`{"id":"` + id + `","endpoints":[{"subject":"tools.one.` + id + `"}]}`))
		}); err != nil {
			t.Fatalf("subscribe: %v", err)
		}
		if err := nc.Flush(); err != nil {
			t.Fatalf("flush: %v", err)
		}
	}
	answer("quick", false)
	answer("slow", true)
	providers := func() int {
		n.Find(t.Context(), "no", "such") // asks all providers again
		for _, o := range n.Offers("one") {
			if o.Name == "slow" {
				return o.Providers
			}
		}
		return 0
	}
	// Where this machine stalls for seconds, a round may miss what was quick.
	eventually(t, "a round has both, though one is slow", func() bool {
		slow.Store(false)
		if providers() == 0 {
			return false
		}
		slow.Store(true)
		return providers() == 1
	})
}

// A job that grants a whole namespace sees its tools although the provider came
// after the last round of asking.
func TestListLooksForNewNamespaces(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 0)
	n.Tools(t.Context())
	nc := brokertest.Connect(t, n.server)
	background(t, func(ctx context.Context) error { return provider.Serve(ctx, nc, provider.Math()) })
	eventually(t, "math is listed", func() bool { return len(n.List(t.Context(), []string{"math"})) == 2 })
}

func TestToolsThatGoAreForgotten(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 0)
	stop := n.provide(t, provider.Math())
	stop()
	eventually(t, "math is forgotten", func() bool {
		_, err := n.Find(t.Context(), "no", "such")
		return errors.Is(err, broker.ErrNoProvider) && len(n.List(t.Context(), []string{"math"})) == 0
	})
}

func TestMaxPayload(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 8<<10)
	n.provide(t, provider.Math())
	b := n.serve(t, "math.echo", broker.Config{})
	b.Hello()
	text := func(size int) string { return `{"text":"` + strings.Repeat("x", size) + `"}` }
	b.Call(1, "math.echo", text(n.MaxArguments()-11))
	if got := b.Recv(); !strings.Contains(got, `"ok":true`) {
		t.Errorf("the largest arguments: got %.200s, want ok", got)
	}
	b.Call(2, "math.echo", text(n.MaxArguments()-10))
	b.ExpectCode(2, broker.CodeTooLarge)
	b.end(t)
}
