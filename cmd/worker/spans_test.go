package main

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// span is what the test reads of one.
type span struct{ service, name, trace, id, parent string }

// spanCollector is an OpenTelemetry collector that keeps what it is sent.
type spanCollector struct {
	*httptest.Server
	mu    sync.Mutex
	spans []span // guarded by mu
}

func startCollector(t *testing.T) *spanCollector {
	t.Helper()
	c := &spanCollector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var sent collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &sent)
		}
		if err != nil {
			t.Errorf("spans: %v", err)
		}
		c.take(&sent)
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *spanCollector) take(sent *collector.ExportTraceServiceRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range sent.GetResourceSpans() {
		service := ""
		for _, kv := range r.GetResource().GetAttributes() {
			if kv.GetKey() == "service.name" {
				service = kv.GetValue().GetStringValue()
			}
		}
		for _, scope := range r.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				c.spans = append(c.spans, span{service, s.GetName(), hex.EncodeToString(s.GetTraceId()), hex.EncodeToString(s.GetSpanId()), hex.EncodeToString(s.GetParentSpanId())})
			}
		}
	}
}

// of are the spans of one trace, by name.
func (c *spanCollector) of(trace string) map[string]span {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := map[string]span{}
	for _, s := range c.spans {
		if s.trace == trace {
			found[s.name] = s
		}
	}
	return found
}

// TestOneTraceFromHTTPToTheProvider: a client's trace goes on through the
// gateway's request, the queue, the attempt and the call, to the provider.
func TestOneTraceFromHTTPToTheProvider(t *testing.T) {
	t.Parallel()
	c := startCollector(t)
	w := startWatched(t, c.URL)
	const trace, client = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	body := `{"requires": {"isolation": "none"}, "tools": [{"namespace": "math", "name": "*"}],
		"code": "{\"fake\": {\"calls\": [{\"namespace\": \"math\", \"name\": \"add\", \"arguments\": {}}]}}"}`
	w.post("/v1/jobs?wait=1m", body, http.StatusOK, "traceparent", "00-"+trace+"-"+client+"-01")
	sent := <-w.parents
	// A request without a trace begins one of its own.
	w.post("/v1/jobs?wait=1m", body, http.StatusOK)
	own := <-w.parents
	w.stop()

	spans := c.of(trace)
	request, attempt, call := spans["POST /v1/jobs"], spans["airlock.attempt"], spans["execute_tool add"]
	if request.service != "airlock-gateway" || request.parent != client {
		t.Errorf("got request %+v, want the gateway's, below the client's span", request)
	}
	if attempt.service != "airlock-worker" || attempt.parent != request.id {
		t.Errorf("got attempt %+v, want the worker's, below %s", attempt, request.id)
	}
	if call.parent != attempt.id {
		t.Errorf("got call %+v, want it below %s", call, attempt.id)
	}
	if want := "00-" + trace + "-" + call.id + "-01"; sent != want || call.id == "" {
		t.Errorf("the provider got traceparent %q, want %q", sent, want)
	}
	parts := strings.Split(own, "-")
	if len(parts) != 4 || parts[1] == trace {
		t.Fatalf("the second job's provider got traceparent %q, want one of another trace", own)
	}
	if other := c.of(parts[1]); other["POST /v1/jobs"].parent != "" || other["airlock.attempt"].parent != other["POST /v1/jobs"].id || len(other) != 3 {
		t.Errorf("got %v, want a trace that begins with the request", other)
	}
	for _, s := range c.spans {
		if slices.Contains([]string{"GET /metrics", "GET /healthz", "GET /readyz"}, s.name) {
			t.Errorf("got a span %s", s.name)
		}
	}
}
