package standalone

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"airlock/job"
)

// natsSync is how often the store is forced to disk. What was acknowledged
// survives the end of the process in any case, since it is in the kernel's
// hands; in a power cut at most this much may be lost that the recorder had
// not written to Postgres either, which it does within a quarter of a second.
const natsSync = time.Second

// natsPoll is how often StartNATS looks whether its context has ended.
const natsPoll = 100 * time.Millisecond

// NATSConfig says where the embedded NATS server listens and keeps its store.
type NATSConfig struct {
	// Dir holds JetStream's files; it is made if it is not there. What is in
	// it is used again.
	Dir string
	// Listen is host:port; port 0 or -1 means a free one. The default is
	// 127.0.0.1:0.
	Listen string
	// AllowRemote permits a host that is not loopback. The server asks nobody
	// who he is: whoever reaches it may run jobs and read results.
	AllowRemote bool
	// SyncAlways forces every message to disk before it is acknowledged, so
	// that not even a power cut loses one. Each costs a disk flush.
	SyncAlways bool
	Log        zerolog.Logger
}

// NATS is a running embedded server.
type NATS struct {
	server *server.Server
}

// StartNATS starts a NATS server with JetStream in this process and returns
// when clients can connect. If ctx ends before, the server is stopped again;
// afterwards ctx has no meaning for it.
func StartNATS(ctx context.Context, cfg NATSConfig) (*NATS, error) {
	opts, err := natsOptions(cfg)
	if err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("start nats: %w", err)
	}
	srv, err := server.NewServer(opts)
	if err != nil {
		return nil, fmt.Errorf("start nats: %w", err)
	}
	failed := make(chan string, 1)
	srv.SetLoggerV2(&natsLog{log: cfg.Log.With().Str("part", "nats-server").Logger(), failed: failed}, false, false, false)
	go srv.Start() // ends once it listens; Close ends the rest
	n := &NATS{server: srv}
	if err := n.ready(ctx, failed); err != nil {
		return nil, errors.Join(fmt.Errorf("start nats on %s: %w", net.JoinHostPort(opts.Host, strconv.Itoa(opts.Port)), err), n.Close())
	}
	return n, nil
}

// URL is where clients connect.
func (n *NATS) URL() string { return n.server.ClientURL() }

// InProcessConn connects to the server without the network. A client that is
// given n by nats.InProcessServer does so.
func (n *NATS) InProcessConn() (net.Conn, error) { return n.server.InProcessConn() }

var _ nats.InProcessConnProvider = (*NATS)(nil)

// Close stops the server and returns when its store is closed. It may be
// called twice.
func (n *NATS) Close() error {
	n.server.Shutdown()
	n.server.WaitForShutdown()
	return nil
}

func (n *NATS) ready(ctx context.Context, failed <-chan string) error {
	for !n.server.ReadyForConnections(natsPoll) {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case why := <-failed:
			return errors.New(why)
		default:
		}
	}
	if !n.server.JetStreamEnabled() {
		return errors.New("jetstream is not enabled")
	}
	return nil
}

func natsOptions(cfg NATSConfig) (*server.Options, error) {
	host, port, err := natsListen(cfg)
	if err != nil {
		return nil, err
	}
	if cfg.Dir == "" {
		return nil, errors.New("no directory for the store")
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make store: %w", err)
	}
	return &server.Options{
		ServerName: "airlock-standalone", Host: host, Port: port, NoSigs: true,
		JetStream: true, StoreDir: cfg.Dir, SyncInterval: natsSync, SyncAlways: cfg.SyncAlways,
	}, nil
}

func natsListen(cfg NATSConfig) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(cmp.Or(cfg.Listen, "127.0.0.1:0"))
	if err != nil {
		return "", 0, fmt.Errorf("read listen address %q: %w", job.Printable(cfg.Listen, 100), err)
	}
	port, err = strconv.Atoi(text)
	if err != nil || port < -1 || port > 65535 {
		return "", 0, fmt.Errorf("read listen address %q: the port is no number up to 65535", job.Printable(cfg.Listen, 100))
	}
	if port == 0 {
		port = server.RANDOM_PORT // to the server 0 means its default
	}
	if !cfg.AllowRemote && !natsLoopback(host) {
		return "", 0, fmt.Errorf("listen on %q: not a loopback address, and anybody who reached it could run jobs", job.Printable(host, 100))
	}
	return host, port, nil
}

// natsLoopback reports whether only this machine reaches the host. An empty
// host means every address.
func natsLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// natsLog carries the server's log into ours, one level lower: its notices are
// of interest only to who debugs.
type natsLog struct {
	log    zerolog.Logger
	failed chan<- string
}

var _ server.Logger = (*natsLog)(nil)

func (l *natsLog) Noticef(format string, v ...any) { l.log.Debug().Msgf(format, v...) }
func (l *natsLog) Warnf(format string, v ...any)   { l.log.Warn().Msgf(format, v...) }
func (l *natsLog) Errorf(format string, v ...any)  { l.log.Error().Msgf(format, v...) }
func (l *natsLog) Debugf(format string, v ...any)  { l.log.Trace().Msgf(format, v...) }
func (l *natsLog) Tracef(format string, v ...any)  { l.log.Trace().Msgf(format, v...) }

// Fatalf is told why the server cannot start. The server would end the process
// there; we end the server.
func (l *natsLog) Fatalf(format string, v ...any) {
	select {
	case l.failed <- fmt.Sprintf(format, v...):
	default:
	}
}
