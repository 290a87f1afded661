// Package natstest runs a NATS server with JetStream inside a test, on a free
// loopback port, with its store in the test's temporary directory. It has the
// users and permissions of a real one: what a role uses and may not use fails
// the test.
package natstest

import (
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"airlock/job"
	"airlock/queue"
)

// patience is how long the server may take to start on a busy machine.
const patience = time.Minute

// Server is a running server. It stops when the test ends.
type Server struct {
	t       testing.TB
	opts    server.Options
	server  *server.Server
	refused refusals
}

// The password of every user.
const password = "secret"

// Tenants and Namespace are those that have users, "submitter-a" for instance.
var Tenants = []string{"default", "other", "a", "b", "c", "z"}

// Namespace is whose provider has a user.
const Namespace = "math"

func users(tenants []string) []queue.Login {
	logins := []queue.Login{
		{User: queue.User{Role: queue.RoleAdmin}}, {User: queue.User{Role: queue.RoleWorker}},
		{User: queue.User{Role: queue.RoleGateway}}, {User: queue.User{Role: queue.RoleProvider, Of: Namespace}},
	}
	for _, tenant := range append(slices.Clone(Tenants), tenants...) {
		logins = append(logins, queue.Login{User: queue.User{Role: queue.RoleSubmitter, Of: tenant}},
			queue.Login{User: queue.User{Role: queue.RoleApprover, Of: tenant}},
			queue.Login{User: queue.User{Role: queue.RoleAnalyst, Of: tenant}})
	}
	for i := range logins {
		logins[i].Password = password
	}
	return logins
}

// Start starts a server, which has users of these tenants too. The server keeps
// its store and its port over Restart.
func Start(t testing.TB, tenants ...string) *Server {
	t.Helper()
	return start(t, options(t, tenants))
}

// StartSmall starts a server whose streams may take so much of the disk.
func StartSmall(t testing.TB, store job.Size) *Server {
	t.Helper()
	opts := options(t, nil)
	opts.JetStreamMaxStore = int64(store)
	return start(t, opts)
}

func start(t testing.TB, opts server.Options) *Server {
	t.Helper()
	s := &Server{t: t, opts: opts}
	s.Resume()
	t.Cleanup(s.Stop)
	t.Cleanup(func() {
		for _, refusal := range s.refused.unexpected() {
			t.Errorf("the server refused what the code did: %s", refusal)
		}
	})
	return s
}

// options are those of the file that operators get.
func options(t testing.TB, tenants []string) server.Options {
	t.Helper()
	conf, err := queue.ServerConf{Listen: "127.0.0.1:0", StoreDir: t.TempDir(), Users: users(tenants)}.Render()
	if err != nil {
		t.Fatalf("render the test's nats configuration: %v", err)
	}
	path := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(path, conf, 0o600); err != nil {
		t.Fatalf("write the test's nats configuration: %v", err)
	}
	opts, err := server.ProcessConfigFile(path)
	if err != nil {
		t.Fatalf("read the test's nats configuration: %v", err)
	}
	opts.Port, opts.NoLog, opts.NoSigs = server.RANDOM_PORT, true, true
	// Nothing here outlives the process, let alone a power cut.
	opts.SyncInterval = time.Hour
	return *opts
}

// URLOf is where a user connects, with its password.
func (s *Server) URLOf(user string) string {
	u, err := url.Parse(s.server.ClientURL())
	if err != nil {
		s.t.Fatalf("parse the test's nats url: %v", err)
	}
	u.User = url.UserPassword(user, password)
	return u.String()
}

// Connect connects as the administrator, who may do everything.
func (s *Server) Connect() *nats.Conn { return s.ConnectAs(string(queue.RoleAdmin)) }

// ConnectAs returns a connection that reconnects for ever and is closed when
// the test ends.
func (s *Server) ConnectAs(user string, options ...nats.Option) *nats.Conn {
	s.t.Helper()
	options = append([]nats.Option{
		nats.Timeout(patience), nats.MaxReconnects(-1), nats.ReconnectWait(20 * time.Millisecond), nats.ReconnectJitter(0, 0),
		nats.CustomInboxPrefix(queue.InboxPrefix(user)), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	}, options...)
	nc, err := nats.Connect(s.URLOf(user), options...)
	if err != nil {
		s.t.Fatalf("connect to the test's nats: %v", err)
	}
	s.t.Cleanup(nc.Close)
	return nc
}

// ExpectRefusals says that what the server refuses from now on is no failure of
// the test.
func (s *Server) ExpectRefusals() { s.refused.expect() }

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

// StoreDir is where the server keeps its streams.
func (s *Server) StoreDir() string { return s.opts.StoreDir }

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
	srv.SetLoggerV2(&s.refused, false, false, false)
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
	account, err := s.server.JszAccount(&server.JSzOptions{Account: queue.Account, Streams: true})
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
