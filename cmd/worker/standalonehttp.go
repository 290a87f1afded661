package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"airlock/cmd/internal/spans"
	"airlock/gateway"
	"airlock/queue"
	"airlock/store"
)

const (
	// httpAuto is the address of who gave none.
	httpAuto    = "auto"
	httpAddress = "127.0.0.1:8080"
	httpFree    = "127.0.0.1:0"
	// httpConns bounds the gateway's connections to Postgres, which are its
	// own: what HTTP asks for never waits before the worker's commits.
	httpConns = 8
)

// httpFlags are those of the gateway of --standalone.
type httpFlags struct {
	ListenHttp string `help:"Address that --standalone serves HTTP on; port 0 takes a free one, and an empty text serves none. auto is 127.0.0.1:8080, or a free port if that is taken. Anything but loopback needs a token." default:"auto" placeholder:"HOST:PORT"`

	CallbackAllow []netip.Prefix `help:"Networks that the callbacks of --standalone may be sent to beside public addresses, such as 10.1.0.0/16." placeholder:"CIDR"`
}

// listen opens the address, or returns nil for none.
func (f *httpFlags) listen(stderr io.Writer) (*gateway.Listener, error) {
	switch f.ListenHttp {
	case "":
		return nil, nil
	case httpAuto:
		l, err := gateway.Listen(httpAddress, "", "")
		if err == nil {
			return l, nil
		}
		if l, err = gateway.Listen(httpFree, "", ""); err != nil {
			return nil, err
		}
		fmt.Fprintf(stderr, "worker: %s is taken: HTTP is at %s (choose with --listen-http)\n", httpAddress, l.URL)
		return l, nil
	}
	l, err := gateway.Listen(f.ListenHttp, "", "")
	if err != nil {
		return nil, fmt.Errorf("%w: give --listen-http another address, or port 0 for a free one", err)
	}
	return l, nil
}

// front is the gateway of --standalone with what it holds. Its connections are
// its own, like those of a gateway elsewhere. Without a listener it serves
// nothing.
type front struct {
	callbacks gateway.CallbackConfig
	listener  *gateway.Listener
	gateway   *gateway.Gateway
	nc        *nats.Conn
	queue     *queue.Queue
	store     *store.Store
}

// join makes the gateway of what a worker has set up; its spans go where the
// worker's do.
func (f *front) join(ctx context.Context, at servers, sender *spans.Sender, log zerolog.Logger) (err error) {
	if f.listener == nil {
		return nil
	}
	if f.store, err = store.Open(ctx, store.Config{URL: at.postgres, Log: log, MaxConns: httpConns}); err != nil {
		return err
	}
	if f.nc, err = queue.ConnectVia(ctx, at.local, at.nats, "airlock gateway", log); err != nil {
		return err
	}
	if f.queue, err = queue.Attach(ctx, f.nc, queue.Config{Log: log}); err != nil {
		return err
	}
	any, err := f.store.AnyToken(ctx)
	if err != nil {
		return err
	}
	if !any && !f.listener.Loopback {
		return errors.New("--listen-http is reachable from elsewhere, and there is no token: start on loopback, make one with gateway token create, and start again")
	}
	f.gateway, err = gateway.New(gateway.Config{Queue: f.queue, Store: f.store, Log: log, Loopback: f.listener.Loopback, Callbacks: f.callbacks, Version: version(), Spans: sender.Provider()})
	return err
}

// serve serves until ctx ends, and then until what is under way has ended.
func (f *front) serve(ctx context.Context) error {
	if f.gateway == nil {
		return nil
	}
	return f.gateway.Serve(ctx, f.listener)
}

// url is where the gateway is found; empty without one.
func (f *front) url() string {
	if f.listener == nil {
		return ""
	}
	return f.listener.URL
}

// close frees what the front holds, which may be only a part.
func (f *front) close() (err error) {
	if f.queue != nil {
		err = f.queue.Close()
	}
	if f.nc != nil {
		f.nc.Close()
	}
	if f.store != nil {
		f.store.Close()
	}
	if f.listener != nil {
		_ = f.listener.Close() // it is, if it served
	}
	return err
}
