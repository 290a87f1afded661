package spans

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"
)

// collector stands in for an OpenTelemetry collector.
type collector struct {
	*httptest.Server
	mu    sync.Mutex
	paths []string // guarded by mu, as body
	body  []byte
}

func newCollector(t *testing.T, status int) *collector {
	c := &collector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.paths = append(c.paths, r.Method+" "+r.URL.Path+" "+r.Header.Get("Content-Type")+" "+r.Header.Get("X-Key"))
		c.body = append(c.body, body...)
		w.WriteHeader(status)
	}))
	t.Cleanup(c.Close)
	return c
}

// clearOtel removes OpenTelemetry's variables, which this machine may have set.
func clearOtel(t *testing.T) {
	for _, name := range []string{"OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_SERVICE_NAME"} {
		t.Setenv(name, "")
	}
}

func TestSpansReachACollector(t *testing.T) {
	for name, tc := range map[string]struct {
		flag, variable, service, path string
	}{
		"by the flag":      {"", "no", "airlock-worker", "/v1/traces"},
		"at its own place": {"/own/place", "no", "airlock-worker", "/own/place"},
		"by the variable":  {"no", "", "mine", "/v1/traces"},
	} {
		t.Run(name, func(t *testing.T) {
			clearOtel(t)
			c := newCollector(t, http.StatusOK)
			flags := &Flags{}
			if tc.flag != "no" {
				flags.Otel = c.URL + tc.flag
			}
			if tc.variable != "no" {
				t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.URL)
				t.Setenv("OTEL_SERVICE_NAME", tc.service)
			}
			t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "X-Key=4711")
			if err := flags.Validate(); err != nil {
				t.Fatal(err)
			}
			s, err := Open(t.Context(), flags, Service{"airlock-worker", "1", "instance-1"}, zerolog.Nop())
			if err != nil {
				t.Fatal(err)
			}
			_, span := s.Tracer().Start(t.Context(), "execute_tool add")
			span.End()
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if len(c.paths) != 1 || c.paths[0] != "POST "+tc.path+" application/x-protobuf 4711" {
				t.Errorf("got requests %q, want one to %s", c.paths, tc.path)
			}
			for _, want := range []string{"execute_tool add", tc.service, "instance-1"} {
				if !bytes.Contains(c.body, []byte(want)) {
					t.Errorf("%q is not in what was sent", want)
				}
			}
		})
	}
}

func TestNoSpansUnlessAsked(t *testing.T) {
	for name, env := range map[string]map[string]string{
		"nothing is set": {},
		"disabled":       {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"},
		"none":           {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER": "none"},
	} {
		t.Run(name, func(t *testing.T) {
			clearOtel(t)
			for variable, value := range env {
				t.Setenv(variable, value)
			}
			s, err := Open(t.Context(), &Flags{}, Service{}, zerolog.Nop())
			if s != nil || err != nil || s.Tracer() != nil || s.Close() != nil {
				t.Errorf("got %v, %v, want nothing", s, err)
			}
		})
	}
}

// A collector that takes nothing is told of in the log, and holds up nobody.
func TestACollectorThatRefuses(t *testing.T) {
	clearOtel(t)
	c := newCollector(t, http.StatusBadRequest)
	var log bytes.Buffer
	s, err := Open(t.Context(), &Flags{Otel: c.URL}, Service{}, zerolog.New(&log))
	if err != nil {
		t.Fatal(err)
	}
	_, span := s.Tracer().Start(t.Context(), "x")
	span.End()
	if err := s.Close(); err != nil {
		t.Errorf("got error %v, want none", err)
	}
	if !strings.Contains(log.String(), "spans lost") {
		t.Errorf("got log %q, want the loss", log.String())
	}
}

func TestOtelFlag(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"host:4318", "ftp://host", "file:/no/such/file", "http://"} {
		if err := (&Flags{Otel: bad}).Validate(); err == nil || !strings.Contains(err.Error(), "--otel") {
			t.Errorf("%s: got error %v, want one of --otel", bad, err)
		}
	}
}
