package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/netutil"
	"golang.org/x/sync/errgroup"

	"airlock/job"
)

const (
	headerTime     = 10 * time.Second
	idleTime       = 2 * time.Minute
	maxHeader      = 64 << 10
	maxConnections = 8192
	// leaveTime is how long requests that are under way have to end.
	leaveTime = 10 * time.Second
)

// Listener listens for a gateway.
type Listener struct {
	net.Listener
	// Loopback: only this machine can reach it.
	Loopback bool
	// URL is where it is found.
	URL string
}

// Listen listens on host:port, with TLS if both files are given. It says so if
// the address is not this machine's alone, which needs tokens.
func Listen(address, certFile, keyFile string) (*Listener, error) {
	if (certFile == "") != (keyFile == "") {
		return nil, errors.New("listen for HTTP: give the certificate and its key, or neither")
	}
	var secure *tls.Config
	if certFile != "" {
		pair, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			return nil, fmt.Errorf("listen for HTTPS: %w", err)
		}
		secure = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for HTTP on %s: %w", job.Printable(address, 100), err)
	}
	out := &Listener{Listener: netutil.LimitListener(l, maxConnections), URL: "http://" + l.Addr().String()}
	if addr, ok := l.Addr().(*net.TCPAddr); ok {
		out.Loopback = addr.IP.IsLoopback()
	}
	if secure != nil {
		out.Listener, out.URL = tls.NewListener(out.Listener, secure), "https://"+l.Addr().String()
	}
	return out, nil
}

// Serve serves until ctx ends, and then until the requests that are under way
// have ended, for a moment. It closes the listener.
func (g *Gateway) Serve(ctx context.Context, l *Listener) error {
	// Browsers say where a page is from that sends a request: another site's
	// may not change anything here.
	server := &http.Server{
		Handler: http.NewCrossOriginProtection().Handler(g), ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
	}
	group, ctx := errgroup.WithContext(ctx)
	listening, stop := context.WithCancel(context.WithoutCancel(ctx))
	group.Go(func() error { return g.Run(listening) })
	group.Go(func() error {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve HTTP: %w", err)
		}
		return nil
	})
	group.Go(func() error {
		defer stop()
		<-ctx.Done()
		g.Leave()
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
		defer cancel()
		if err := server.Shutdown(ending); err != nil {
			g.cfg.Log.Warn().Err(err).Msg("requests cut off")
			return server.Close()
		}
		return nil
	})
	return group.Wait()
}
