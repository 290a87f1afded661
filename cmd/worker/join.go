package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"airlock/backends"
	"airlock/backends/all"
	"airlock/backends/memory"
	"airlock/backends/wasm"
	"airlock/broker"
	"airlock/cmd/internal/spans"
	"airlock/job"
	"airlock/metrics"
	"airlock/queue"
	"airlock/store"
	"airlock/worker"
	"airlock/worker/failpoint"
	"airlock/worker/trace"
)

// pool is one worker with all its parts, joined to NATS and Postgres.
type pool struct {
	cfg *config
	log zerolog.Logger
	id  string

	nc        *nats.Conn
	queue     *queue.Queue
	store     *store.Store
	catalogue *broker.Catalogue
	broker    *broker.Broker
	approvals *approvals
	worker    *worker.Worker

	started time.Time
	// draining: it takes nothing new, and says so.
	draining atomic.Bool
	prober   *worker.Prober
	// decisions are those of the reconciler, when this worker leads.
	decisions worker.Decisions
	// changed has a place for the news that the offers are others.
	changed  chan struct{}
	backends []all.Named
	trace    *trace.File     // nil without --trace
	spans    *spans.Sender   // nil without --otel
	meter    *metrics.Worker // nil without --listen-metrics, as is scrapes
	scrapes  *metrics.Listener
	leading  atomic.Bool
	fail     *failpoint.Points // nil but in tests
}

// servers are what a pool joins: their addresses, and NATS itself where it runs
// in this process.
type servers struct {
	nats, postgres string
	local          nats.InProcessConnProvider
}

// join connects, migrates, probes and builds the worker. It retries services
// that do not answer until --connect-timeout.
func join(ctx context.Context, cfg *config, at servers, log zerolog.Logger) (*pool, error) {
	collectLess()
	p := &pool{cfg: cfg, id: uuid.NewString(), started: time.Now().UTC(), changed: make(chan struct{}, 1)}
	p.log = log.With().Str("worker", p.id).Logger()
	for _, step := range []func(context.Context) error{
		p.armFailpoints,
		p.openTrace,
		p.openMeter,
		func(ctx context.Context) (err error) {
			p.spans, err = spans.Open(ctx, &cfg.Flags, spans.Service{Name: "airlock-worker", Version: version(), Instance: p.id}, p.log)
			return err
		},
		p.probe,
		func(ctx context.Context) error { return p.connect(ctx, at) },
		func(ctx context.Context) error { return p.recordPolicy(ctx, cfg.rules.Policy()) },
	} {
		if err := step(ctx); err != nil {
			return nil, errors.Join(err, p.close())
		}
	}
	p.catalogue = broker.NewCatalogue(p.nc, broker.CatalogueConfig{Log: p.log})
	p.approvals = newApprovals(p.store, p.log)
	talk := broker.Config{
		Tools: p.tools(), Audit: toldAudit{p.store, p.queue.Tell}, Past: p.store, Policy: cfg.rules.Policy, Approvals: p.approvals, Log: p.log, Tracer: p.spans.Tracer(), MaxArtifacts: cfg.MaxArtifacts,
	}
	work := worker.Config{
		ID:        p.id,
		Ledger:    p.store,
		Results:   p.queue,
		Sandboxes: p.prober.Sandboxes(),
		Max:       cfg.max,
		Cancelled: func(j *job.Job) bool { return p.queue.Cancelled(j.Tenant, j) },
		Ended:     p.prober.Ended,
		Events:    p.queue.Tell,
		Trace:     p.trace,
		Fail:      p.fail,
		Log:       p.log,
	}
	if p.meter != nil { // an interface that holds nil is not nil
		talk.Meter, work.Meter = p.meter, p.meter
	}
	p.broker = broker.New(talk)
	work.Tools = p.broker
	p.worker = worker.New(work)
	return p, nil
}

// openTrace comes first: a path that cannot be written is told at once.
func (p *pool) openTrace(context.Context) (err error) {
	if p.cfg.Trace == "" {
		return nil
	}
	p.trace, err = trace.Create(p.cfg.Trace, trace.Config{Process: "worker " + p.id, Log: p.log})
	return err
}

func (p *pool) connect(ctx context.Context, at servers) error {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.ConnectTimeout)
	defer cancel()
	var err error
	if p.nc, err = queue.ConnectVia(ctx, at.local, at.nats, "worker "+p.id, p.log); err != nil {
		return fmt.Errorf("connect to NATS (is --nats right, and the server up?): %w", err)
	}
	if err = store.Migrate(ctx, at.postgres, p.log); err != nil {
		return fmt.Errorf("bring the database to this schema (is --postgres right, and the server up?): %w", err)
	}
	if p.store, err = store.Open(ctx, store.Config{URL: at.postgres, Log: p.log, MaxConns: connections(p.cfg.Slots)}); err != nil {
		return fmt.Errorf("connect to Postgres: %w", err)
	}
	if p.queue, err = queue.Open(ctx, p.nc, queue.Config{
		Log: p.log, Replicas: p.cfg.NatsReplicas,
		MaxPerTenant: p.cfg.TenantQuota, MaxJobs: p.cfg.QueueJobs, MaxBytes: int64(p.cfg.QueueSize),
	}); err != nil {
		return fmt.Errorf("open the queue: %w", err)
	}
	return nil
}

// connections leaves the group committers room without making Postgres keep a
// process for every slot: they batch what waits.
func connections(slots int) int { return min(8+slots/8, 32) }

// probe asks each chosen backend what it can do here. One that cannot do
// anything now may come later, but one must be there to begin with.
func (p *pool) probe(ctx context.Context) error {
	named, err := choose(p.cfg, p.log)
	if err != nil {
		return err
	}
	p.backends = named
	candidates := make([]worker.Candidate, len(named))
	for i, n := range named {
		if n.Auto {
			named[i].Backend = backends.Parked(n.Backend, backends.ParkedConfig{Size: p.cfg.spares(i, n.Name), Tight: memory.Tight, Log: p.log})
		}
		candidates[i] = worker.Candidate{Name: n.Name, Backend: backends.Logged(named[i].Backend, n.Name, p.log)}
	}
	p.prober = worker.NewProber(worker.ProberConfig{Candidates: candidates, Labels: p.cfg.Labels, Changed: p.announceChange, Log: p.log})
	p.prober.Probe(ctx)
	if len(p.prober.Sandboxes().Load()) == 0 {
		return noBackend(p.prober.Unavailable())
	}
	return nil
}

// fewSpares is how many guests of wasm stand ready behind another backend.
const fewSpares = 2

// spares is how many guests of the chosen backend at that place stand ready. One
// of wasm is a process of tens of MiB, so that few are where jobs come to it
// only when others fail.
func (c *config) spares(place int, name string) int {
	if name == wasm.Name && place > 0 {
		return min(c.parked(), fewSpares)
	}
	return c.parked()
}

// announceChange has presence advertised soon.
func (p *pool) announceChange() {
	select {
	case p.changed <- struct{}{}:
	default: // it is about to be
	}
}

func (p *pool) offers() []job.Offer {
	boxes := p.prober.Sandboxes().Load()
	offers := make([]job.Offer, len(boxes))
	for i, box := range boxes {
		offers[i] = box.Can.Offer
	}
	return offers
}

// presence is what the fleet sees of this worker.
func (p *pool) presence() queue.Presence {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return queue.Presence{
		ID: p.id, Host: host, Version: version(), Started: p.started,
		// Those that only wait for their end to be recorded have left their slots.
		Slots: p.cfg.Slots, Busy: min(p.worker.Running(), p.cfg.Slots), Draining: p.draining.Load(),
		Labels: p.cfg.Labels, Offers: p.offers(), Unavailable: p.prober.Unavailable(), Max: p.cfg.max,
		Decisions: p.decisions.Counts(),
		Policy:    p.cfg.rules.Policy().Digest(), PolicyProblem: p.cfg.rules.Problem(),
	}
}

// close frees what join took, last first. It may be called on a pool that is
// only half there.
func (p *pool) close() error {
	var errs []error
	for _, n := range slices.Backward(p.backends) {
		errs = append(errs, n.Backend.Close())
	}
	if p.queue != nil {
		errs = append(errs, p.queue.Close())
	}
	if p.store != nil {
		p.store.Close()
	}
	if p.nc != nil {
		p.nc.Close()
	}
	errs = append(errs, p.scrapes.Close(), p.trace.Close(), p.spans.Close())
	return errors.Join(errs...)
}

// version is the commit the binary was built from, where Go recorded it.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value[:min(12, len(s.Value))]
		}
	}
	return info.Main.Version
}
