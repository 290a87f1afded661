package metrics

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/netutil"
)

const (
	maxScrapers = 64
	headerTime  = 5 * time.Second
	maxHeader   = 16 << 10
	leaveTime   = 2 * time.Second
)

// Listener serves metrics at an address of their own, to whoever can reach it.
type Listener struct {
	listener net.Listener
	// URL is where they are.
	URL string
}

// Listen listens on host:port; port 0 takes a free one.
func Listen(address string) (*Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for scrapes (is --listen-metrics a HOST:PORT that is free?): %w", err)
	}
	return &Listener{netutil.LimitListener(l, maxScrapers), "http://" + l.Addr().String() + "/metrics"}, nil
}

// Serve serves until ctx ends. A nil Listener waits for that.
func (l *Listener) Serve(ctx context.Context, metrics http.Handler) error {
	if l == nil {
		<-ctx.Done()
		return nil
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics)
	server := &http.Server{
		Handler: mux, ReadHeaderTimeout: headerTime, ReadTimeout: headerTime, WriteTimeout: 2 * scrapeTime,
		IdleTimeout: time.Minute, MaxHeaderBytes: maxHeader,
	}
	over := make(chan error, 1)
	go func() { over <- server.Serve(l.listener) }()
	select {
	case err := <-over:
		return fmt.Errorf("serve metrics: %w", err)
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
	defer cancel()
	err := server.Shutdown(ending)
	if err != nil {
		err = server.Close()
	}
	if served := <-over; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// Close frees an address that was not served at. It may be called on nil.
func (l *Listener) Close() error {
	if l == nil {
		return nil
	}
	if err := l.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}
