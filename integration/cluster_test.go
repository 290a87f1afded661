package integration_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"airlock/store/storetest"
)

// startCluster starts three NATS servers that know each other, as the one
// configuration of dev/k8s has them but for addresses, TLS and users.
func startCluster(t *testing.T) (clients []string) {
	t.Helper()
	listeners := make([]net.Listener, 3)
	var routes []string
	for i := range listeners {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listeners[i] = l
		routes = append(routes, "nats://"+l.Addr().String())
	}
	for i, l := range listeners {
		_ = l.Close()
		srv, err := server.NewServer(&server.Options{
			ServerName: fmt.Sprintf("nats-%d", i), Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true,
			JetStream: true, StoreDir: t.TempDir(),
			Cluster: server.ClusterOpts{Name: "airlock", Host: "127.0.0.1", Port: l.Addr().(*net.TCPAddr).Port},
			Routes:  server.RoutesFromStr(strings.Join(routes, ",")),
		})
		if err != nil {
			t.Fatal(err)
		}
		go srv.Start()
		t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
		if !srv.ReadyForConnections(20 * time.Second) {
			t.Fatalf("NATS server %d of the cluster is not ready", i)
		}
		clients = append(clients, srv.ClientURL())
	}
	return clients
}

// TestReplicas: a worker gives each stream and bucket of a cluster as many
// replicas as it was told, and works.
func TestReplicas(t *testing.T) {
	t.Parallel()
	binary(t, "worker")
	nodes := startCluster(t)
	nc, err := nats.Connect(nodes[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the cluster has a leader", func() bool {
		_, err := js.AccountInfo(t.Context())
		return err == nil
	})
	p, err := startWorker("--nats", strings.Join(nodes, ","), "--postgres", storetest.EmptyURL(t), "--nats-replicas", "3", "--backends", "fake")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.stop)
	names := js.ListStreams(t.Context())
	seen := 0
	for info := range names.Info() {
		seen++
		if info.Config.Replicas != 3 {
			t.Errorf("got %d replicas of stream %s, want 3", info.Config.Replicas, info.Config.Name)
		}
	}
	if names.Err() != nil || seen < 5 {
		t.Errorf("got %d streams and error %v, want all of them", seen, names.Err())
	}
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(60 * time.Second); !done(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// TestClusterConfiguration: the server understands the configuration that
// dev/k8s gives it, and takes from it what DEPLOY.md says.
func TestClusterConfiguration(t *testing.T) {
	dir := t.TempDir()
	manifest, err := os.ReadFile("../dev/k8s/10-nats.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(manifest), "  nats.conf: |\n")
	if !ok {
		t.Fatal("dev/k8s/10-nats.yaml has no nats.conf")
	}
	text, _, _ = strings.Cut(text, "\n---")
	writeCertificate(t, dir)
	text = strings.ReplaceAll(text, "/etc/nats-tls", dir)
	for name, content := range map[string]string{
		"nats/nats.conf":      text,
		"nats-auth/auth.conf": "authorization { users = [ { user: worker, password: secret } ] }",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("POD_NAME", "nats-1")
	got, err := server.ProcessConfigFile(filepath.Join(dir, "nats/nats.conf"))
	if err != nil {
		t.Fatal(err)
	}
	if got.ServerName != "nats-1" || !got.JetStream || got.StoreDir != "/data" || len(got.Routes) != 3 || len(got.Users) != 1 ||
		got.TLSConfig == nil || got.Cluster.TLSConfig == nil || got.Cluster.TLSConfig.ClientAuth == 0 {
		t.Errorf("got %+v, want a server of three with JetStream, TLS on both sides and the users of auth.conf", got)
	}
}
