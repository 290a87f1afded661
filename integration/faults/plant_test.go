//go:build linux

package faults_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"airlock/queue"
	"airlock/standalone"
	"airlock/store/storetest"
)

// patience is generous: the machine may be busy.
const patience = 3 * time.Minute

// askPatience is for a question that is asked again where a server that is gone
// took it along, and that one which is slow still answers.
const askPatience = 20 * time.Second

// layout is what a plant consists of.
type layout struct {
	// servers of NATS; one by default.
	servers int
	// own is a Postgres server that may be stopped.
	own bool
	// proxied has the workers reach both through proxies.
	proxied bool
	// backend is what workers offer: fake by default.
	backend string
	// skewed has the workers of the steps run with a wrong clock.
	skewed bool
	// early leaves out what takes the queue's own patience, AckWait: to take
	// what dead workers left in the queue out of it.
	early bool
	// forgetful leaves out what was announced: the queue lost it, and whoever
	// waited for it asks for what is recorded.
	forgetful bool
}

// plant is a whole Airlock in parts that can be broken one by one.
type plant struct {
	layout
	rng      *rand.Rand
	nodes    []*node
	postgres *standalone.Postgres // nil unless own
	url      string               // of the database
	books    *books
	// The ways that workers take, where they are proxied.
	natsWay, postgresWay *proxy

	queue *queue.Queue
	js    jetstream.JetStream
	steps []*step
	load  *load
	hands []*worker // those without failpoints
}

func startPlant(t testing.TB, l layout, rng *rand.Rand) *plant {
	t.Helper()
	l.backend = defaulted(l.backend, "fake")
	l.servers = max(l.servers, 1)
	p := &plant{layout: l, rng: rng, books: newBooks()}
	p.nodes = startNATS(t, l.servers)
	if l.own {
		p.postgres = storetest.Server(t)
		p.url = p.postgres.URL()
	} else {
		p.url = storetest.EmptyURL(t)
	}
	if l.proxied {
		p.natsWay = startProxy(t, hostOf(t, p.nodes[0].url()))
		p.postgresWay = startProxy(t, hostOf(t, p.url))
	}
	p.awaitLeader(t)
	return p
}

func defaulted(s, value string) string {
	if s == "" {
		return value
	}
	return s
}

func (p *plant) natsURL() string {
	urls := make([]string, len(p.nodes))
	for i, n := range p.nodes {
		urls[i] = n.url()
	}
	return strings.Join(urls, ",")
}

// ways are the addresses that workers are given.
func (p *plant) ways(t testing.TB) (natsURL, postgresURL string) {
	if !p.proxied {
		return p.natsURL(), p.url
	}
	return through(t, p.nodes[0].url(), p.natsWay), through(t, p.url, p.postgresWay)
}

// awaitLeader waits until JetStream answers.
func (p *plant) awaitLeader(t testing.TB) {
	t.Helper()
	nc := p.connect(t, "harness")
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(patience)) // else 5 s
	if err != nil {
		t.Fatal(err)
	}
	p.js = js
	until(t, patience, "jetstream answers", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), askPatience)
		defer cancel()
		_, err := js.AccountInfo(ctx)
		return err == nil
	})
}

func (p *plant) connect(t testing.TB, name string) *nats.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	nc, err := queue.Connect(ctx, p.natsURL(), name, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// attach makes the harness a submitter, once a worker has set the queue up.
func (p *plant) attach(t testing.TB) {
	t.Helper()
	nc := p.connect(t, "submitter")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var err error
	if p.queue, err = queue.Attach(ctx, nc, queue.Config{Log: zerolog.Nop()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.queue.Close() })
}

// database connects past every proxy; it tries until Postgres answers.
func (p *plant) database(t testing.TB) *pgx.Conn {
	t.Helper()
	var db *pgx.Conn
	until(t, patience, "postgres answers", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), askPatience)
		defer cancel()
		var err error
		db, err = pgx.Connect(ctx, p.url)
		return err == nil
	})
	t.Cleanup(func() { db.Close(context.Background()) })
	return db
}

// leader is the node that leads JOBS, or nil while none does.
func (p *plant) leader(t testing.TB) *node {
	ctx, cancel := context.WithTimeout(context.Background(), askPatience)
	defer cancel()
	stream, err := p.js.Stream(ctx, "JOBS")
	if err != nil {
		return nil
	}
	info := stream.CachedInfo()
	for _, n := range p.nodes {
		if info.Cluster != nil && info.Cluster.Leader == n.name {
			return n
		}
	}
	return nil
}

// follower is a node that does not lead JOBS.
func (p *plant) follower(t testing.TB) *node {
	leads := p.awaitStreamLeader(t)
	for {
		if n := p.nodes[p.rng.IntN(len(p.nodes))]; n != leads {
			return n
		}
	}
}

func (p *plant) awaitStreamLeader(t testing.TB) (n *node) {
	t.Helper()
	until(t, patience, "JOBS has a leader", func() bool { n = p.leader(t); return n != nil })
	return n
}

// waiting is how many messages of a stream are there; an error where the
// stream cannot tell now.
func (p *plant) waiting(name string) (uint64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), askPatience)
	defer cancel()
	stream, err := p.js.Stream(ctx, name)
	if err != nil {
		return 0, err
	}
	return stream.CachedInfo().State.Msgs, nil
}

// stuck names the consumers of JOBS that still have something.
func (p *plant) stuck() (names []string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), askPatience)
	defer cancel()
	stream, err := p.js.Stream(ctx, "JOBS")
	if err != nil {
		return nil, err
	}
	consumers := stream.ListConsumers(ctx)
	for info := range consumers.Info() {
		if info.NumPending > 0 || info.NumAckPending > 0 {
			names = append(names, fmt.Sprintf("%s: %d pending, %d delivered", info.Name, info.NumPending, info.NumAckPending))
		}
	}
	return names, errors.Join(consumers.Err())
}
