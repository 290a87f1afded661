package broker_test

import (
	"context"
	"strings"
	"testing"

	"airlock/broker"
	"airlock/broker/brokertest"
	"airlock/broker/provider"
	"airlock/job"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// tracing gives a tracer and what it made, by name.
func tracing() (broker.Config, func() []tracetest.SpanStub) {
	exporter := tracetest.NewInMemoryExporter()
	made := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	return broker.Config{Tracer: made.Tracer("airlock")}, func() []tracetest.SpanStub { return exporter.GetSpans() }
}

// attributes are a span's, as text.
func attributes(s tracetest.SpanStub) map[string]string {
	all := map[string]string{}
	for _, kv := range s.Attributes {
		all[string(kv.Key)] = kv.Value.String()
	}
	return all
}

func TestSpans(t *testing.T) {
	t.Parallel()
	cfg, spans := tracing()
	b := begin(t, setup{cfg: cfg})
	b.Hello()
	b.Call(1, "math.add", `{"a":"111122223333444455","b":"2"}`)
	b.Recv()
	b.Send(`{"id":2,"method":"call_tool","params":{"name":"a\u001b[31m","arguments":{"secret":"47114711471147114711"}}}`)
	b.ExpectCode(2, broker.CodeBadName)
	b.end(t)

	made := spans()
	if len(made) != 3 {
		t.Fatalf("got %d spans, want two calls and their attempt", len(made))
	}
	add, bad, attempt := made[0], made[1], made[2]
	id := b.attempt.Job.ID.String()
	if diff := cmp.Diff(map[string]string{
		"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "add", "gen_ai.tool.call.id": id + ".1.1",
		"airlock.tool.namespace": "math", "airlock.call.state": "ok",
	}, attributes(add)); diff != "" || add.Name != "execute_tool add" || add.Status.Code != codes.Unset {
		t.Errorf("the call: got name %q, status %v, attributes (-want +got):\n%s", add.Name, add.Status, diff)
	}
	if diff := cmp.Diff(map[string]string{
		"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": `a\x1b[31m`, "gen_ai.tool.call.id": id + ".1.2",
		"airlock.tool.namespace": "", "airlock.call.state": "refused", "error.type": "bad_name",
	}, attributes(bad)); diff != "" || bad.Name != "execute_tool" || bad.Status.Code != codes.Error {
		t.Errorf("the refused call: got name %q, status %v, attributes (-want +got):\n%s", bad.Name, bad.Status, diff)
	}
	if attempt.Name != "airlock.attempt" || attempt.Parent.IsValid() || attributes(attempt)["airlock.job"] != id {
		t.Errorf("got attempt %+v, want a root with the job's id", attempt)
	}
	for _, call := range made[:2] {
		if call.Parent.SpanID() != attempt.SpanContext.SpanID() || call.SpanContext.TraceID() != attempt.SpanContext.TraceID() {
			t.Errorf("%s: is not below the attempt", call.Name)
		}
	}
	want := "00-" + add.SpanContext.TraceID().String() + "-" + add.SpanContext.SpanID().String() + "-01"
	if got := b.tools.Requests()[0].TraceParent; got != want {
		t.Errorf("got traceparent %q, want %q", got, want)
	}
	if text := strings.Join(words(made), " "); strings.Contains(text, "111122223333444455") || strings.Contains(text, "47114711471147114711") {
		t.Errorf("a span holds arguments: %s", text)
	}
}

func words(spans []tracetest.SpanStub) []string {
	var all []string
	for _, s := range spans {
		all = append(all, s.Name, s.Status.Description)
		for key, value := range attributes(s) {
			all = append(all, key, value)
		}
	}
	return all
}

// A breach is told by its kind: what the guest sent is no attribute.
func TestSpanOfABreach(t *testing.T) {
	t.Parallel()
	cfg, spans := tracing()
	b := begin(t, setup{cfg: cfg})
	b.Hello()
	b.Send(`{"method":"evil47114711471147114711"}`)
	if _, err := b.Wait(); err == nil {
		t.Fatal("got no error, want a breach")
	}
	made := spans()
	if len(made) != 1 || attributes(made[0])["error.type"] != "breach" || strings.Contains(strings.Join(words(made), " "), "47114711471147114711") {
		t.Errorf("got %v, want one span of the kind breach", words(made))
	}
}

func TestAJobsOwnTrace(t *testing.T) {
	t.Parallel()
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for label, joins := range map[string]bool{parent: true, "00-xyz": false, "": false} {
		cfg, spans := tracing()
		b := begin(t, setup{cfg: cfg, edits: []func(*job.Job){func(j *job.Job) { j.Labels = map[string]string{broker.TraceLabel: label} }}})
		b.Hello()
		b.end(t)
		if got := spans()[0].Parent.SpanID().String() == "b7ad6b7169203331"; got != joins {
			t.Errorf("label %q: got joined %v, want %v", label, got, joins)
		}
	}
}

// TestTheSubmittersSpan: what submitted the job is the attempt's parent, unless
// the job has a trace of its own, which then links to it.
func TestTheSubmittersSpan(t *testing.T) {
	t.Parallel()
	const label, submitted = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-1af7651916cd43dd8448eb211c80319c-c7ad6b7169203331-01"
	for _, tc := range []struct{ label, submitted, parent, link string }{
		{"", submitted, "c7ad6b7169203331", ""},
		{label, submitted, "b7ad6b7169203331", "c7ad6b7169203331"},
		{label, "", "b7ad6b7169203331", ""},
		{"", "00-zz", "0000000000000000", ""},
	} {
		cfg, spans := tracing()
		guest, host := brokertest.NewSocketGuest(t)
		cfg.Tools, cfg.Audit = brokertest.Math(t), &brokertest.Audit{}
		a := brokertest.Attempt(t, "math.*", func(j *job.Job) { j.Labels = map[string]string{broker.TraceLabel: tc.label} })
		a.TraceParent = tc.submitted
		running := brokertest.Serve(t, broker.New(cfg), a, host)
		guest.Hello()
		guest.Finish(1, "null")
		if _, err := running.Wait(); err != nil {
			t.Fatal(err)
		}
		span, link := spans()[0], ""
		for _, l := range span.Links {
			link += l.SpanContext.SpanID().String()
		}
		if got := span.Parent.SpanID().String(); got != tc.parent || link != tc.link {
			t.Errorf("label %q, submitted %q: got parent %s and link %q, want %s and %q", tc.label, tc.submitted, got, link, tc.parent, tc.link)
		}
	}
}

// Without a tracer nothing is told and nothing is made.
func TestNoTracer(t *testing.T) {
	t.Parallel()
	b := begin(t, setup{})
	b.Hello()
	b.Call(1, "math.add", `{"a":"1","b":"2"}`)
	b.Recv()
	b.end(t)
	if got := b.tools.Requests()[0].TraceParent; got != "" {
		t.Errorf("got traceparent %q, want none", got)
	}
}

// The provider of a real call sees the header.
func TestTheTraceReachesTheProvider(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 0)
	seen := make(chan string, 1)
	n.provide(t, provider.Namespace{Name: "math", Tools: []provider.Tool{{Name: "add", Handler: func(_ context.Context, call provider.Call) (any, error) {
		seen <- call.TraceParent
		return 1, nil
	}}}})
	cfg, spans := tracing()
	cfg.Tools, cfg.Audit = n.Catalogue, &brokertest.Audit{}
	guest, host := brokertest.NewSocketGuest(t)
	running := brokertest.Serve(t, broker.New(cfg), brokertest.Attempt(t, "math.*"), host)
	guest.Hello()
	guest.Call(1, "math.add", `{}`)
	guest.Recv()
	guest.Finish(2, "null")
	if _, err := running.Wait(); err != nil {
		t.Fatal(err)
	}
	call := spans()[0]
	if got, want := <-seen, call.SpanContext.SpanID().String(); !strings.Contains(got, want) || attributes(call)["airlock.tool.provider"] == "" {
		t.Errorf("got traceparent %q and attributes %v, want span %s and the provider", got, attributes(call), want)
	}
}
