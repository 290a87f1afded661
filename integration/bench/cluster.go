package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// nodeEnv makes this program a NATS server with the configuration that it
// names: a server that is killed has to be a process of its own.
const nodeEnv = "AIRLOCK_BENCH_NATS"

// serveNode runs a server until its input ends, and answers each line of it,
// the name of a stream, with whether the server leads that stream.
func serveNode(config string, questions io.Reader, answers io.Writer) error {
	opts, err := server.ProcessConfigFile(config)
	if err != nil {
		return err
	}
	opts.NoSigs = true
	s, err := server.NewServer(opts)
	if err != nil {
		return err
	}
	s.ConfigureLogger()
	s.Start()
	lines := bufio.NewScanner(questions)
	for lines.Scan() {
		fmt.Fprintln(answers, s.JetStreamIsStreamLeader("$G", lines.Text()))
	}
	s.Shutdown()
	s.WaitForShutdown()
	return lines.Err()
}

// node is a NATS server in a process of its own.
type node struct {
	cmd     *exec.Cmd
	ask     io.WriteCloser
	answers *bufio.Scanner
}

// cluster is some servers that replicate to each other.
type cluster struct {
	dir   string
	nodes []*node
	urls  []string
}

func startCluster(ctx context.Context, servers int) (*cluster, error) {
	dir, err := os.MkdirTemp("", "airlock-bench-")
	if err != nil {
		return nil, err
	}
	c := &cluster{dir: dir}
	ports, err := freePorts(2 * servers)
	if err != nil {
		return nil, errors.Join(err, c.stop())
	}
	var routes []string
	for i := range servers {
		c.urls = append(c.urls, fmt.Sprintf("nats://127.0.0.1:%d", ports[2*i]))
		routes = append(routes, fmt.Sprintf("nats-route://127.0.0.1:%d", ports[2*i+1]))
	}
	for i := range servers {
		text := fmt.Sprintf("server_name: n%d\nlisten: 127.0.0.1:%d\nlog_file: %q\njetstream { store_dir: %q }\n"+
			"cluster { name: bench, listen: 127.0.0.1:%d, routes: [%s] }\n",
			i, ports[2*i], filepath.Join(dir, fmt.Sprintf("n%d.log", i)), filepath.Join(dir, fmt.Sprintf("n%d", i)),
			ports[2*i+1], strings.Join(routes, ", "))
		if err := c.start(ctx, filepath.Join(dir, fmt.Sprintf("n%d.conf", i)), text); err != nil {
			return nil, errors.Join(err, c.stop())
		}
	}
	return c, nil
}

func (c *cluster) start(ctx context.Context, config, text string) error {
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	n := &node{cmd: exec.CommandContext(ctx, self)}
	n.cmd.Env = append(os.Environ(), nodeEnv+"="+config)
	n.cmd.Stderr = os.Stderr
	n.cmd.WaitDelay = patience
	if n.ask, err = n.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := n.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	n.answers = bufio.NewScanner(out)
	if err := n.cmd.Start(); err != nil {
		return fmt.Errorf("start a NATS server: %w", err)
	}
	c.nodes = append(c.nodes, n)
	return nil
}

// killLeader ends the server that leads the stream, as a power switch does. It
// waits for an election that is under way.
func (c *cluster) killLeader(ctx context.Context, stream string) (at time.Time, err error) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		for _, n := range c.nodes {
			if n.leads(stream) {
				at = time.Now()
				return at, n.cmd.Process.Kill()
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return at, fmt.Errorf("find the leader of %s: %w", stream, context.Cause(ctx))
		}
	}
}

func (n *node) leads(stream string) bool {
	if _, err := fmt.Fprintln(n.ask, stream); err != nil {
		return false
	}
	return n.answers.Scan() && n.answers.Text() == "true"
}

// stop ends all servers and removes what they stored.
func (c *cluster) stop() error {
	for _, n := range c.nodes {
		_ = n.cmd.Process.Kill()
		_ = n.cmd.Wait()
	}
	return os.RemoveAll(c.dir)
}

// freePorts are held at once, so that none is handed out twice.
func freePorts(count int) ([]int, error) {
	var ports []int
	for range count {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
