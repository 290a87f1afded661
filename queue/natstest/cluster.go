package natstest

import (
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"airlock/queue"
)

// StartCluster starts a cluster of servers with JetStream, and returns their
// URLs with commas between. It returns before they have elected anybody. They
// stop when the test ends.
func StartCluster(t testing.TB, servers int) string {
	t.Helper()
	routes := make([]*url.URL, servers)
	ports := make([]int, servers)
	for i := range routes {
		ports[i] = freePort(t)
		routes[i] = &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", ports[i])}
	}
	urls := make([]string, servers)
	for i := range urls {
		s := &Server{t: t, opts: options(t, nil)}
		s.opts.ServerName, s.opts.Routes = fmt.Sprintf("n%d", i+1), routes
		s.opts.Cluster = server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: ports[i]}
		s.Resume()
		t.Cleanup(s.Stop)
		urls[i] = s.URLOf(string(queue.RoleAdmin))
	}
	return strings.Join(urls, ",")
}

func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("find a free port: %v", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
