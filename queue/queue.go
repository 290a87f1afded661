package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"airlock/job"
)

// Config holds the knobs of a Queue. The zero value is useful. Those of
// streams and consumers hold for the whole fleet and are set by the worker
// that opened last; all workers of one fleet should have the same.
type Config struct {
	Log zerolog.Logger

	// Tenant is for whom an attached queue asks what is nobody's in
	// particular; "default" by default.
	Tenant string
	// MaxPerTenant is how many jobs a tenant may have in one lane and
	// priority, waiting and running together; 100,000 by default.
	MaxPerTenant int64
	// MaxJobs and MaxBytes bound stream JOBS as a whole; 5,000,000 jobs by
	// default, and what it has, or else about a fifth of the server's store.
	// The server reserves MaxBytes at once, and refuses a stream for which it
	// has not the room. What the other streams may take is bounded by the same.
	MaxJobs  int64
	MaxBytes int64
	// ResultsAge is how long results can be replayed; 7 days by default.
	ResultsAge time.Duration
	// AckWait is how long a delivered job may go without a sign of life
	// before it is delivered again; job.AckWait by default.
	AckWait time.Duration
	// WorkerTTL is how long a worker is shown without advertising again;
	// 30 s by default.
	WorkerTTL time.Duration
	// Replicas is how many servers of a cluster hold the streams; by default
	// three, or one where the server is no cluster's. A cluster of two needs
	// it said.
	Replicas int
	// MemoryStorage keeps the streams in memory, for tests: nothing then
	// survives a restart of the server.
	MemoryStorage bool
}

func (c Config) withDefaults() Config {
	c.Tenant = cmp.Or(c.Tenant, job.DefaultTenant)
	c.MaxPerTenant = cmp.Or(c.MaxPerTenant, 100_000)
	c.MaxJobs = cmp.Or(c.MaxJobs, 5_000_000)
	c.ResultsAge = cmp.Or(c.ResultsAge, 7*24*time.Hour)
	c.AckWait = cmp.Or(c.AckWait, job.AckWait)
	c.WorkerTTL = cmp.Or(c.WorkerTTL, 30*time.Second)
	return c
}

// Queue is one connection's view of the queue. Its methods may be called from
// several goroutines at once.
type Queue struct {
	cfg Config
	nc  *nats.Conn
	js  jetstream.JetStream
	stores
	// attached is set for a submitter's queue: it may read nothing that
	// tenants write, and asks workers for it.
	attached bool

	lanes   *view[job.Requirement]
	workers *view[sighting]
	// cancels is nil in a queue that was attached to.
	cancels *view[cancellation]

	// stalled are the consumers that Mend suspects.
	stalled map[stall]bool

	// ended are the jobs that this process took to their end.
	ended   recent
	meter   meter
	hearing hearing
	// background ends with Close.
	background context.Context
	end        context.CancelCauseFunc
	running    sync.WaitGroup
}

// Open is for workers: it makes sure that streams and buckets exist, binds to
// them, and answers what attached queues ask until Close. It may be called by
// many workers at once. The connection stays the caller's.
func Open(ctx context.Context, nc *nats.Conn, cfg Config) (*Queue, error) {
	q, err := newQueue(nc, cfg)
	if err != nil {
		return nil, err
	}
	if err := q.setUp(ctx); err != nil {
		return nil, err
	}
	if err := q.bind(ctx); err != nil {
		return nil, err
	}
	q.cancels = newView(q.cancelsKV, q.cfg.Log, decodeCancellation)
	if err := q.start(ctx); err != nil {
		return nil, err
	}
	if err := q.serveFleet(); err != nil {
		return nil, errors.Join(err, q.Close())
	}
	return q, nil
}

// Attach is for submitters: it binds to what workers set up and creates
// nothing. Its error wraps ErrNoQueue when no worker ever did, and ErrRefused
// when the connection's user is not of Config.Tenant. The connection stays the
// caller's.
func Attach(ctx context.Context, nc *nats.Conn, cfg Config) (*Queue, error) {
	q, err := newQueue(nc, cfg)
	if err != nil {
		return nil, err
	}
	q.attached = true
	if err := q.probeRights(ctx); err != nil {
		return nil, err
	}
	if err := q.bind(ctx); err != nil {
		return nil, err
	}
	if err := q.start(ctx); err != nil {
		return nil, err
	}
	return q, nil
}

func newQueue(nc *nats.Conn, cfg Config) (*Queue, error) {
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(requestTimeout))
	if err != nil {
		return nil, fmt.Errorf("open jetstream: %w", err)
	}
	return &Queue{cfg: cfg.withDefaults(), nc: nc, js: js}, nil
}

// start begins to watch the fleet and waits until all of it has been seen once.
func (q *Queue) start(ctx context.Context) error {
	q.lanes = newView(q.lanesKV, q.cfg.Log, decodeLane)
	q.workers = newView(q.workersKV, q.cfg.Log, q.decodeSighting)
	background, end := context.WithCancelCause(context.Background())
	q.background, q.end = background, end
	q.running.Go(func() { q.lanes.run(background) })
	q.running.Go(func() { q.workers.run(background) })
	synced := []<-chan struct{}{q.lanes.synced, q.workers.synced}
	if q.cancels != nil {
		q.running.Go(func() { q.cancels.run(background) })
		synced = append(synced, q.cancels.synced)
	}
	for _, whole := range synced {
		select {
		case <-whole:
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("watch the fleet: %w", context.Cause(ctx)), q.Close())
		}
	}
	return nil
}

// Close ends what watches the queue and waits for it. It ends neither Consume
// and its like, which end with their contexts, nor the connection. It may be
// called twice.
func (q *Queue) Close() error {
	q.end(ErrClosed)
	q.running.Wait()
	return nil
}
