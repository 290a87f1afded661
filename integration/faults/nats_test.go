//go:build linux

package faults_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// natsNodeEnv makes the test binary a NATS server with the configuration that
// it names: a server that is killed has to be a process of its own.
const natsNodeEnv = "AIRLOCK_FAULTS_NATS"

func serveNATS(path string) {
	opts, err := server.ProcessConfigFile(path)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	opts.NoSigs = true
	s, err := server.NewServer(opts)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	s.ConfigureLogger()
	s.Start()
	s.WaitForShutdown()
	os.Exit(0)
}

// node is a NATS server in a process of its own.
type node struct {
	name   string
	port   int
	config string
	store  string
	log    string
	cmd    *exec.Cmd
	// links are the ways of its routes, in either direction.
	links []*proxy
}

func (n *node) url() string { return fmt.Sprintf("nats://127.0.0.1:%d", n.port) }

func (n *node) start(t testing.TB) {
	t.Helper()
	n.cmd = exec.Command(os.Args[0])
	n.cmd.Env = append(os.Environ(), natsNodeEnv+"="+n.config)
	n.cmd.SysProcAttr = dieWithParent()
	if err := n.cmd.Start(); err != nil {
		t.Fatalf("start nats node %s: %v", n.name, err)
	}
	until(t, patience, "nats node "+n.name+" listens", func() bool {
		c, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", n.port), time.Second)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}

// kill ends the node as a power switch does, except that the kernel keeps what
// was written.
func (n *node) kill() {
	if n.cmd == nil {
		return
	}
	_ = n.cmd.Process.Signal(syscall.SIGKILL)
	_ = n.cmd.Wait()
	n.cmd = nil
}

// startNATS starts so many servers, which form a cluster if they are several.
// Their routes run through proxies that can be cut.
func startNATS(t testing.TB, servers int) []*node {
	t.Helper()
	nodes := make([]*node, servers)
	ports := freePorts(t, 2*servers)
	for i := range nodes {
		nodes[i] = &node{name: fmt.Sprintf("n%d", i+1), port: ports[2*i]}
	}
	for i, n := range nodes {
		dir := t.TempDir()
		n.config, n.log, n.store = filepath.Join(dir, "nats.conf"), filepath.Join(dir, "nats.log"), filepath.Join(dir, "store")
		text := fmt.Sprintf("server_name: %s\nlisten: 127.0.0.1:%d\nlog_file: %q\njetstream { store_dir: %q }\n", n.name, n.port, n.log, n.store)
		if servers > 1 {
			text += n.clusterConf(t, i, nodes, ports)
		}
		if err := os.WriteFile(n.config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range nodes {
		t.Cleanup(n.kill)
		n.start(t)
	}
	return nodes
}

func (n *node) clusterConf(t testing.TB, i int, nodes []*node, ports []int) string {
	var routes []string
	for k, other := range nodes {
		if k == i {
			continue
		}
		link := startProxy(t, fmt.Sprintf("127.0.0.1:%d", ports[2*k+1]))
		n.links, other.links = append(n.links, link), append(other.links, link)
		routes = append(routes, "nats-route://"+link.address())
	}
	return fmt.Sprintf("cluster { name: faults, listen: 127.0.0.1:%d, no_advertise: true, pool_size: -1, routes: [%s] }\n", ports[2*i+1], strings.Join(routes, ", "))
}

// freePorts are held at once, so that none is handed out twice. They are below
// those that the kernel hands out: a node that was killed needs its own again,
// which a client that tries to reconnect could have got for its own end.
func freePorts(t testing.TB, count int) (ports []int) {
	t.Helper()
	for tries := 0; len(ports) < count; tries++ {
		port := lowestPort + rand.IntN(kernelPorts-lowestPort)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			defer l.Close()
			ports = append(ports, port)
		} else if tries > 1000 {
			t.Fatal(err)
		}
	}
	return ports
}

// kernelPorts is where the ports begin that Linux hands out, lowestPort well
// above those that services have.
const lowestPort, kernelPorts = 20_000, 32_768

// through is the address with the host that the proxy listens on.
func through(t testing.TB, address string, p *proxy) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = p.address()
	return u.String()
}

func hostOf(t testing.TB, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}
