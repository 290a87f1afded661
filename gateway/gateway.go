package gateway

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"airlock/job"
	"airlock/metrics"
	"airlock/queue"
	"airlock/store"
)

// Config is what a Gateway needs. The numbers may be zero.
type Config struct {
	Queue *queue.Queue
	Store *store.Store
	Log   zerolog.Logger

	// Tenant is for whom requests without a token act while there is no
	// token at all: "default".
	Tenant string
	// Loopback says that only this machine can reach the gateway. Otherwise
	// each request needs a token.
	Loopback bool

	// Rate is how many requests a second one tenant may make, with as many
	// at once after a second's pause: 1,000. Concurrency is how many of its
	// requests may be under way, event streams among them: 2,000.
	Rate        float64
	Concurrency int
	// BodyWait is how long a client may take over the next part of its body:
	// 30 s.
	BodyWait time.Duration
	// AnswerWait is how long a client may take to take the next part of its
	// answer, such as events: 10 s.
	AnswerWait time.Duration
	// Spans makes a span of each request, and has the jobs that it submits
	// join its trace; nil makes none.
	Spans trace.TracerProvider
	// Callbacks is how ends are told of.
	Callbacks CallbackConfig
	// Version is shown in the API's description.
	Version string
}

func (c Config) withDefaults() Config {
	c.Tenant = cmp.Or(c.Tenant, job.DefaultTenant)
	c.Rate = cmp.Or(c.Rate, 1000)
	c.Concurrency = cmp.Or(c.Concurrency, 2000)
	c.BodyWait = cmp.Or(c.BodyWait, 30*time.Second)
	c.AnswerWait = cmp.Or(c.AnswerWait, 10*time.Second)
	c.Callbacks.Tries = cmp.Or(c.Callbacks.Tries, 10)
	c.Callbacks.Pause = cmp.Or(c.Callbacks.Pause, 5*time.Second)
	c.Callbacks.Patience = cmp.Or(c.Callbacks.Patience, 10*time.Second)
	c.Version = cmp.Or(c.Version, "unknown")
	return c
}

// Gateway serves HTTP. Run must run while it does.
type Gateway struct {
	cfg     Config
	gate    gate
	tenants tenants
	waiters waiters
	hub     hub
	pending pending
	// submitting holds a token for each job that is being published.
	submitting chan struct{}
	routes     []route
	mux        *http.ServeMux
	// front is mux, observed; scrapes answers with what meter counted.
	front, scrapes http.Handler
	meter          *metrics.Gateway
	// leaving is closed when streams are to end.
	leaving chan struct{}
}

// New makes a Gateway. It starts nothing.
func New(cfg Config) (*Gateway, error) {
	if cfg.Queue == nil || cfg.Store == nil {
		return nil, errors.New("make a gateway: it needs a queue and a store")
	}
	g := &Gateway{cfg: cfg.withDefaults(), leaving: make(chan struct{}), submitting: make(chan struct{}, atOnce)}
	g.gate = gate{tokens: cfg.Store, tenant: g.cfg.Tenant, loopback: cfg.Loopback}
	g.tenants = tenants{rate: g.cfg.Rate, concurrency: g.cfg.Concurrency}
	g.waiters = waiters{store: cfg.Store}
	g.meter = metrics.NewGateway(g.cfg.Version, g.fleet)
	g.scrapes = g.meter.Handler()
	g.pending = pending{byJob: map[job.ID]job.ID{}, wake: make(chan struct{}, 1)}
	g.routes = g.table()
	mux, err := g.newMux()
	if err != nil {
		return nil, err
	}
	g.mux, g.front = mux, g.observed(exact(mux))
	return g, nil
}

// Run hears of jobs, and tells of their ends, until ctx ends.
func (g *Gateway) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return g.cfg.Queue.Overhear(ctx, g.heardEnd) })
	group.Go(func() error { return g.cfg.Queue.OverhearEvents(ctx, g.hub.wanted, g.hub.heard) })
	group.Go(func() error { return g.deliver(ctx) })
	return group.Wait()
}

// Leave has streams and waits end, each with what its client needs to go on
// elsewhere. It may be called once.
func (g *Gateway) Leave() { close(g.leaving) }
