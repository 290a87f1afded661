package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/google/uuid"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"airlock/cmd/internal/spans"
	"airlock/gateway"
	"airlock/metrics"
)

// observeFlags say who may watch, and how.
type observeFlags struct {
	spans.Flags
	ListenMetrics string `help:"Address to serve Prometheus' /metrics on, besides the one of --listen-http, to whoever can reach it and without a token; port 0 takes a free one. By default there is none." placeholder:"HOST:PORT"`
}

// observer is what watches a gateway. It is to be closed.
type observer struct {
	scrapes *metrics.Listener // nil without --listen-metrics
	spans   *spans.Sender     // nil where none are wanted
}

func (f *observeFlags) observe(ctx context.Context, log zerolog.Logger) (o *observer, err error) {
	o = &observer{}
	if err := f.Validate(); err != nil {
		return nil, usageError(err.Error())
	}
	if f.ListenMetrics != "" {
		if o.scrapes, err = metrics.Listen(f.ListenMetrics); err != nil {
			return nil, err
		}
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	about := spans.Service{Name: "airlock-gateway", Version: version(), Instance: host + "-" + uuid.NewString()}
	if o.spans, err = spans.Open(ctx, &f.Flags, about, log); err != nil {
		return nil, errors.Join(err, o.scrapes.Close())
	}
	return o, nil
}

func (o *observer) close() error { return errors.Join(o.scrapes.Close(), o.spans.Close()) }

// serve runs the gateway, and answers scrapes, until ctx ends.
func (o *observer) serve(ctx context.Context, a *app, g *gateway.Gateway, l *gateway.Listener) error {
	if o.scrapes != nil {
		fmt.Fprintf(a.stdout, "metrics   %s\n", o.scrapes.URL)
	}
	fmt.Fprintf(a.stdout, "http      %s\ndocs      %s/docs\nready\n", l.URL, l.URL)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return o.scrapes.Serve(ctx, g.Metrics()) })
	group.Go(func() error { return g.Serve(ctx, l) })
	return group.Wait()
}
