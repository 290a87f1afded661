// Package natstest runs a NATS server with JetStream inside a test, on a free
// loopback port, with its store in the test's temporary directory.
package natstest

import (
	"net"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

const patience = 10 * time.Second

// Server is a running server. It stops when the test ends.
type Server struct {
	t      testing.TB
	opts   server.Options
	server *server.Server
}

// Start starts a server. The server keeps its store and its port over Restart.
func Start(t testing.TB) *Server {
	t.Helper()
	s := &Server{t: t, opts: server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(),
		NoLog: true, NoSigs: true,
		// Nothing here outlives the process, let alone a power cut.
		SyncInterval: time.Hour,
	}}
	s.Resume()
	t.Cleanup(s.Stop)
	return s
}

// URL is where clients connect.
func (s *Server) URL() string { return s.server.ClientURL() }

// Connect returns a connection that reconnects for ever and is closed when the
// test ends.
func (s *Server) Connect() *nats.Conn {
	s.t.Helper()
	nc, err := nats.Connect(s.URL(), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond), nats.ReconnectJitter(0, 0))
	if err != nil {
		s.t.Fatalf("connect to the test's nats: %v", err)
	}
	s.t.Cleanup(nc.Close)
	return nc
}

// Restart stops the server and starts it again on the same store and port.
func (s *Server) Restart() {
	s.t.Helper()
	s.Stop()
	s.Resume()
}

// Wipe stops the server and starts it again, on the same port, with an empty
// store.
func (s *Server) Wipe() {
	s.t.Helper()
	s.Stop()
	s.opts.StoreDir = s.t.TempDir()
	s.Resume()
}

// Stop stops the server; its store stays. It may be called twice.
func (s *Server) Stop() {
	s.server.Shutdown()
	s.server.WaitForShutdown()
}

// Resume starts the server after Stop.
func (s *Server) Resume() {
	s.t.Helper()
	opts := s.opts
	srv, err := server.NewServer(&opts)
	if err != nil {
		s.t.Fatalf("make the test's nats: %v", err)
	}
	s.server = srv
	go srv.Start()
	if !srv.ReadyForConnections(patience) {
		s.t.Fatalf("the test's nats was not ready after %s", patience)
	}
	s.opts.Port = s.port()
}

// Messages counts what a stream holds.
func (s *Server) Messages(stream string) uint64 {
	s.t.Helper()
	account, err := s.server.JszAccount(&server.JSzOptions{Account: server.DEFAULT_GLOBAL_ACCOUNT, Streams: true})
	if err != nil {
		s.t.Fatalf("look into the test's jetstream: %v", err)
	}
	for _, detail := range account.Streams {
		if detail.Name == stream {
			return detail.State.Msgs
		}
	}
	s.t.Fatalf("the test's jetstream has no stream %s", stream)
	return 0
}

func (s *Server) port() int {
	u, err := url.Parse(s.server.ClientURL())
	if err != nil {
		s.t.Fatalf("parse the test's nats url: %v", err)
	}
	_, text, err := net.SplitHostPort(u.Host)
	if err != nil {
		s.t.Fatalf("parse the test's nats url: %v", err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		s.t.Fatalf("parse the test's nats url: %v", err)
	}
	return port
}

// Subscriptions counts the live subscriptions whose subject begins with prefix.
func (s *Server) Subscriptions(prefix string) int {
	s.t.Helper()
	state, err := s.server.Connz(&server.ConnzOptions{Subscriptions: true})
	if err != nil {
		s.t.Fatalf("list the test's connections: %v", err)
	}
	count := 0
	for _, conn := range state.Conns {
		for _, subject := range conn.Subs {
			if strings.HasPrefix(subject, prefix) {
				count++
			}
		}
	}
	return count
}
