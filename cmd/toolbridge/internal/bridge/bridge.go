package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"airlock/broker/provider"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"
)

// Options are how a Bridge works. All may be zero.
type Options struct {
	Log zerolog.Logger
	// Lookup reads a variable of the environment: os.LookupEnv.
	Lookup func(string) (string, bool)
	// Backoff is how long a dead server is left alone.
	Backoff Backoff
}

// Backoff is the wait before the first try, which doubles until Most: 500 ms
// and 30 s. It begins anew for a server that has lived for Most.
type Backoff struct{ First, Most time.Duration }

// Bridge is a set of running servers.
type Bridge struct {
	upstreams []*upstream
}

// Open starts all servers and learns their tools. Two tools of one name, a
// name or a schema that cannot be served, and a server that does not answer,
// unless it is optional, are errors; then nothing is left running. The caller
// closes the Bridge, whose servers live until then.
func Open(ctx context.Context, cfg *Config, opts Options) (*Bridge, error) {
	if opts.Lookup == nil {
		opts.Lookup = os.LookupEnv
	}
	opts.Backoff.First = cmp.Or(opts.Backoff.First, 500*time.Millisecond)
	opts.Backoff.Most = cmp.Or(opts.Backoff.Most, 30*time.Second)
	b := &Bridge{}
	taken := &claims{of: map[fullName]*upstream{}}
	for i := range cfg.Servers {
		s := &cfg.Servers[i]
		b.upstreams = append(b.upstreams, &upstream{
			place: i, server: s, opts: opts, claims: taken,
			log:     opts.Log.With().Int("server", i).Str("namespace", s.Namespace).Logger(),
			changed: make(chan struct{}, 1), renewed: make(chan struct{}, 1),
		})
	}
	if err := b.start(ctx); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

func (b *Bridge) start(ctx context.Context) error {
	problems := make([]error, len(b.upstreams))
	var all sync.WaitGroup
	for i, u := range b.upstreams {
		all.Go(func() {
			err := u.start(ctx)
			if err != nil && u.server.Optional && u.current() == nil {
				u.log.Warn().Err(err).Msg("server not started; it joins later")
				err = nil
			}
			if err != nil {
				problems[i] = fmt.Errorf("%s: %w", u.where(), err)
			}
		})
	}
	all.Wait()
	return errors.Join(problems...)
}

// Close ends the servers, and returns when they and what they started have
// ended.
func (b *Bridge) Close() {
	var all sync.WaitGroup
	for _, u := range b.upstreams {
		all.Go(u.stop)
	}
	all.Wait()
}

// Tools lists what is served now, by namespace and name.
func (b *Bridge) Tools() []Listed {
	var all []Listed
	for _, u := range b.upstreams {
		for _, o := range u.offering() {
			all = append(all, Listed{
				Namespace: u.server.Namespace, Name: o.Name, Original: o.theirs, Server: u.place,
				Description: o.Description, ReadOnly: o.ReadOnly, Idempotent: o.Idempotent,
			})
		}
	}
	slices.SortFunc(all, func(a, b Listed) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// Serve answers calls until ctx ends and those that have arrived are answered.
// The error is not nil when the connection was closed for good.
func (b *Bridge) Serve(ctx context.Context, nc *nats.Conn) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, u := range b.upstreams {
		// Servers are kept while their last calls are answered.
		keeping, stop := context.WithCancel(context.WithoutCancel(ctx))
		var kept sync.WaitGroup
		kept.Go(func() { u.keep(keeping) })
		group.Go(func() error {
			defer kept.Wait()
			defer stop()
			if err := u.serve(ctx, nc); err != nil {
				return fmt.Errorf("serve %s: %w", u.where(), err)
			}
			return nil
		})
	}
	return group.Wait()
}

// serve announces the server's tools, and again when they are others: the new
// ones are there before the old ones leave.
func (u *upstream) serve(ctx context.Context, nc *nats.Conn) error {
	running := idle()
	defer func() { running.stop() }()
	select {
	case <-u.renewed: // what is announced first
	default:
	}
	for {
		next, err := u.announce(ctx, nc)
		if err != nil {
			return err
		}
		if err := running.stop(); err != nil {
			return errors.Join(err, next.stop())
		}
		running = next
		select {
		case <-ctx.Done():
			return running.stop()
		case err := <-running.ended:
			return err
		case <-u.renewed:
		}
	}
}

// announced is one set of tools that is being served.
type announced struct {
	cancel context.CancelFunc
	ended  chan error // gets one error, and is closed then
}

// idle serves nothing until it is stopped.
func idle() *announced {
	ended := make(chan error)
	return &announced{sync.OnceFunc(func() { close(ended) }), ended}
}

func (a *announced) stop() error {
	a.cancel()
	return <-a.ended
}

// announce begins to serve the tools, and returns once calls arrive.
func (u *upstream) announce(ctx context.Context, nc *nats.Conn) (*announced, error) {
	offers := u.offering()
	if len(offers) == 0 {
		return idle(), nil
	}
	ready := make(chan struct{})
	n := provider.Namespace{
		Name: u.server.Namespace, Parallel: u.server.Concurrency, Log: u.log,
		Ready: sync.OnceFunc(func() { close(ready) }),
	}
	for _, o := range offers {
		n.Tools = append(n.Tools, o.Tool)
	}
	ctx, cancel := context.WithCancel(ctx)
	a := &announced{cancel, make(chan error, 1)}
	go func() { defer close(a.ended); a.ended <- provider.Serve(ctx, nc, n) }()
	select {
	case <-ready:
		u.log.Info().Int("tools", len(offers)).Msg("serving")
		return a, nil
	case err := <-a.ended:
		cancel()
		return idle(), err // nil when ctx has ended
	}
}
