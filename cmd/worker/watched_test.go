package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"airlock/broker/provider"
	"airlock/cmd/internal/spans"
	"airlock/gateway"
	"airlock/job"
	"airlock/queue"
	"airlock/queue/natstest"
	"airlock/store"
	"airlock/store/storetest"
)

// watched is a whole worker, a gateway before it, and a provider.
type watched struct {
	t   *testing.T
	ctx context.Context
	// gateway is its URL, metrics where the worker's are.
	gateway, metrics string
	// parents are the traceparents that the provider was sent.
	parents chan string
	// stop ends worker and gateway, so that all their spans are sent.
	stop func()
}

// printed is a command's standard output, while it is still printing.
type printed struct {
	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

func (p *printed) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

// after is the rest of the line that begins with the word.
func (p *printed) after(word string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for line := range strings.Lines(p.text.String()) {
		if rest, ok := strings.CutPrefix(line, word); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

// startWatched sends spans to the collector at that URL, unless it is "".
func startWatched(t *testing.T, collector string) *watched {
	t.Helper()
	// The test's own ends before the clean-up, which is to be orderly.
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	w := &watched{t: t, ctx: ctx, parents: make(chan string, 100)}
	srv, postgres := natstest.Start(t), storetest.URL(t)
	args := []string{"--nats", srv.URLOf("worker"), "--postgres", postgres, "--backends", "fake", "--slots", "2", "--listen-metrics", "127.0.0.1:0"}
	if collector != "" {
		args = append(args, "--otel", collector)
	}
	cfg := &config{}
	if code, done := parseInto(cfg, "worker", "", args, io.Discard, os.Stderr); done {
		t.Fatalf("flags: code %d", code)
	}
	signals, out := make(chan os.Signal, 1), &printed{}
	ending, end := context.WithCancel(ctx)
	var group errgroup.Group
	group.Go(func() error { return runPool(ctx, cfg, out, storetest.Log(t), signals) })
	until(ctx, t, "a worker that says where its metrics are", func() bool { w.metrics = out.after("metrics "); return w.metrics != "" })
	group.Go(func() error { return w.provide(ending, srv) })
	sender := w.serve(ending, &group, srv, postgres, collector)
	w.stop = sync.OnceFunc(func() {
		signals <- syscall.SIGTERM
		end()
		if err := group.Wait(); err != nil {
			t.Errorf("end: %v", err)
		}
		if err := sender.Close(); err != nil {
			t.Errorf("end: %v", err)
		}
	})
	t.Cleanup(w.stop)
	return w
}

// provide answers for math.add and notes what it is sent.
func (w *watched) provide(ctx context.Context, srv *natstest.Server) error {
	nc := srv.ConnectAs("provider-math")
	return ended(ctx, provider.Serve(ctx, nc, provider.Namespace{Name: natstest.Namespace, Tools: []provider.Tool{{Name: "add", Handler: func(_ context.Context, c provider.Call) (any, error) {
		w.parents <- c.TraceParent
		return 3, nil
	}}}}))
}

// serve runs a gateway.
func (w *watched) serve(ctx context.Context, group *errgroup.Group, srv *natstest.Server, postgres, collector string) *spans.Sender {
	sender, err := spans.Open(ctx, &spans.Flags{Otel: collector}, spans.Service{Name: "airlock-gateway"}, zerolog.Nop())
	if err != nil {
		w.t.Fatal(err)
	}
	s, err := store.Open(ctx, store.Config{URL: postgres})
	if err != nil {
		w.t.Fatal(err)
	}
	nc := srv.ConnectAs(string(queue.RoleGateway))
	q := attached(ctx, w.t, func() (*queue.Queue, error) { return queue.Attach(ctx, nc, queue.Config{}) })
	g, err := gateway.New(gateway.Config{Queue: q, Store: s, Log: storetest.Log(w.t), Loopback: true, Spans: sender.Provider()})
	if err != nil {
		w.t.Fatal(err)
	}
	server := httptest.NewServer(g)
	w.gateway = server.URL
	until(ctx, w.t, "a worker that knows math.add", func() bool {
		var answer job.ToolList
		return q.Ask(ctx, "default", "tools", job.ToolsQuery{}, &answer) == nil && len(answer.Tools) == 1
	})
	group.Go(func() error {
		defer s.Close()
		defer q.Close()
		defer server.Close()
		return ended(ctx, g.Run(ctx))
	})
	return sender
}

// post sends a body to the gateway and returns the answer.
func (w *watched) post(path, body string, want int, headers ...string) string {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.ctx, http.MethodPost, w.gateway+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	answer, status := w.do(req)
	if status != want {
		w.t.Fatalf("got %d %s, want %d", status, answer, want)
	}
	return answer
}

func (w *watched) get(url string) (string, int) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.ctx, http.MethodGet, url, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.do(req)
}

func (w *watched) do(req *http.Request) (string, int) {
	w.t.Helper()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(body), resp.StatusCode
}

// scrape is one, as text and parsed.
func (w *watched) scrape(url string) (string, map[string]*dto.MetricFamily) {
	w.t.Helper()
	text, status := w.get(url)
	if status != http.StatusOK {
		w.t.Fatalf("%s: got %d %s", url, status, text)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader([]byte(text)))
	if err != nil {
		w.t.Fatalf("%s: %v:\n%s", url, err, text)
	}
	return text, families
}
