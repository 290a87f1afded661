package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime/debug"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"airlock/cmd/internal/secret"
	"airlock/gateway"
	"airlock/job"
	"airlock/queue"
)

// serveCmd serves HTTP.
type serveCmd struct {
	database
	observeFlags
	Nats string `help:"URL of the NATS server, those of a cluster's servers with commas between, or file: and the path of a file that holds it." placeholder:"URL" required:""`
	serving
	TlsKey            string         `help:"File with the certificate's key, in PEM." placeholder:"FILE"`
	Tenant            string         `help:"For whom requests without a token act, which are taken from this machine while there is no token at all." default:"default" placeholder:"NAME"`
	TenantRate        float64        `help:"How many requests a second one tenant may make." default:"1000" placeholder:"N"`
	CallbackAllow     []netip.Prefix `help:"Networks that callbacks may be sent to beside public addresses, such as 10.1.0.0/16." placeholder:"CIDR"`
	TenantConcurrency int            `help:"How many requests of one tenant may be under way, event streams among them." default:"2000" placeholder:"N"`
}

// Run implements the command.
func (c *serveCmd) Run(ctx context.Context, a *app) error {
	if err := c.check(); err != nil {
		return err
	}
	log := c.log(a.stderr)
	watch, err := c.observe(ctx, log)
	if err != nil {
		return err
	}
	defer func() { _ = watch.close() }() // the last spans are lost
	s, err := c.open(ctx, log)
	if err != nil {
		return err
	}
	defer s.Close()
	nc, q, err := c.attach(ctx, log)
	if err != nil {
		return err
	}
	defer nc.Close()
	defer func() { _ = q.Close() }() // nothing of ours is left in it
	l, err := gateway.Listen(c.ListenHttp, c.TlsCert, c.TlsKey)
	if err != nil {
		return err
	}
	any, err := s.AnyToken(ctx)
	switch {
	case err != nil:
		return errors.Join(err, l.Close())
	case !any && !l.Loopback:
		return errors.Join(usageError("--listen-http is reachable from elsewhere, and there is no token: make one with gateway token create"), l.Close())
	case !any:
		fmt.Fprintf(a.stderr, "gateway: there is no token: every user of this machine acts for tenant %s\n", c.Tenant)
	}
	g, err := gateway.New(gateway.Config{
		Queue: q, Store: s, Log: log, Tenant: c.Tenant, Loopback: l.Loopback,
		Callbacks: gateway.CallbackConfig{Allow: c.CallbackAllow},
		Rate:      c.TenantRate, Concurrency: c.TenantConcurrency, Version: version(), Spans: watch.spans.Provider(),
	})
	if err != nil {
		return errors.Join(err, l.Close())
	}
	return watch.serve(ctx, a, g, l)
}

func (c *serveCmd) check() error {
	switch {
	case !job.ValidName(c.Tenant):
		return usageError("--tenant: want 1 to 64 letters, digits, _ and -")
	case c.TenantRate <= 0 || c.TenantConcurrency <= 0:
		return usageError("--tenant-rate and --tenant-concurrency: want more than nothing")
	}
	return nil
}

// attach waits for a first worker to set the queue up, as it may be starting
// at this moment.
func (c *serveCmd) attach(ctx context.Context, log zerolog.Logger) (*nats.Conn, *queue.Queue, error) {
	url, err := secret.Read(c.Nats)
	if err != nil {
		return nil, nil, usageError("--nats: " + err.Error())
	}
	ctx, cancel := context.WithTimeout(ctx, c.ConnectTimeout)
	defer cancel()
	nc, err := queue.Connect(ctx, url, "airlock gateway", log)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to NATS (is --nats right, and the server up?): %w", err)
	}
	for {
		q, err := queue.Attach(ctx, nc, queue.Config{Log: log, Tenant: c.Tenant})
		if err == nil {
			return nc, q, nil
		}
		if !errors.Is(err, queue.ErrNoQueue) || !pause(ctx, 250*time.Millisecond) {
			nc.Close()
			return nil, nil, err
		}
	}
}

// pause waits and reports whether ctx is still going.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
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
