package gateway

import (
	"context"
	"net/http"
	"strings"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/propagation"

	"airlock/metrics"
)

// The parts that a gateway depends on, as metrics name them.
const (
	onNATS     = "nats"
	onPostgres = "postgres"
	// onWorkers: one answers questions about the queue.
	onWorkers = "workers"
)

// statusLeft is counted for a request whose client left before its answer.
const statusLeft = 499

// Metrics answers scrapes. It asks nobody who they are.
func (g *Gateway) Metrics() http.Handler { return g.scrapes }

func (g *Gateway) getMetrics(w http.ResponseWriter, r *request) error {
	g.scrapes.ServeHTTP(w, r.Request)
	return nil
}

// observed counts what next serves, and makes a span of it where spans are
// wanted, but for the routes that machines ask for all the time.
func (g *Gateway) observed(next http.Handler) http.Handler {
	counted := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &countedWriter{ResponseWriter: w}
		done, over := g.meter.Begin(r.Method), false
		defer func() { done(routeOf(r), c.code(r.Context(), over)) }()
		next.ServeHTTP(c, r)
		over = true
	})
	if g.cfg.Spans == nil {
		return counted
	}
	return otelhttp.NewHandler(counted, "HTTP",
		otelhttp.WithTracerProvider(g.cfg.Spans), otelhttp.WithPropagators(propagation.TraceContext{}),
		otelhttp.WithSpanNameFormatter(spanName), otelhttp.WithFilter(func(r *http.Request) bool {
			return r.URL.Path != "/metrics" && r.URL.Path != "/healthz" && r.URL.Path != "/readyz"
		}))
}

// routeOf is the path of the route that served r, "" if none did. It is the
// table's, and not what the client wrote.
func routeOf(r *http.Request) string {
	_, path, _ := strings.Cut(r.Pattern, " ")
	return path
}

// spanName holds nothing of a client's.
func spanName(operation string, r *http.Request) string {
	if r.Pattern == "" || r.Pattern == "/" {
		return operation
	}
	return r.Pattern
}

// countedWriter knows what was answered.
type countedWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (c *countedWriter) WriteHeader(status int) {
	if c.status == 0 && status >= http.StatusOK {
		c.status = status
	}
	c.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (c *countedWriter) Write(p []byte) (int, error) {
	if c.status == 0 {
		c.status = http.StatusOK
	}
	return c.ResponseWriter.Write(p)
}

// Flush implements http.Flusher.
func (c *countedWriter) Flush() {
	_ = http.NewResponseController(c.ResponseWriter).Flush() // a writer that cannot, need not
}

// Unwrap is for http.ResponseController.
func (c *countedWriter) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// code is the status that the client has, or would have. over says that the
// handler returned.
func (c *countedWriter) code(ctx context.Context, over bool) int {
	switch {
	case c.status != 0:
		return c.status
	case !over:
		return http.StatusInternalServerError
	case ctx.Err() != nil:
		return statusLeft
	}
	return http.StatusOK
}

// fleet is what metrics tell of the queue and its workers.
func (g *Gateway) fleet(ctx context.Context) metrics.Fleet {
	f := metrics.Fleet{Problems: map[string]error{}}
	var err error
	f.Oldest, err = g.cfg.Store.OldestWaiting(ctx)
	f.Problems[onPostgres] = err
	workers, err := g.cfg.Queue.Workers(ctx)
	if err == nil {
		err = g.cfg.Queue.Ping(ctx)
	}
	if f.Problems[onNATS] = err; err != nil {
		return f
	}
	f.Known = true
	for _, w := range workers {
		if w.Draining {
			f.Draining++
			continue
		}
		f.Workers, f.Slots, f.Busy = f.Workers+1, f.Slots+w.Slots, f.Busy+w.Busy
	}
	lanes, err := g.cfg.Queue.Lanes(ctx)
	f.Problems[onWorkers] = err
	for _, lane := range lanes {
		for priority, depth := range lane.Depth {
			f.Lanes = append(f.Lanes, metrics.LaneDepth{Lane: lane.Name, Priority: priority, Waiting: depth.Waiting, Running: depth.Running})
		}
	}
	return f
}
