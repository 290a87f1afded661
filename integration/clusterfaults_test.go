package integration_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	dockernet "github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/network"
)

const (
	// electing is the patience with an election: the server's own constants
	// make it last up to nine seconds, and one may be disputed.
	electing = 60 * time.Second
	// frozen is how long a node is paused.
	frozen = 10 * time.Second
)

// boxedCluster is three NATS servers. Clients reach them by one network, they each
// other by another.
type boxedCluster struct {
	*plant
	nodes  []*boxed
	routes *testcontainers.DockerNetwork
}

func startBoxedCluster(t *testing.T, e *engine) *boxedCluster {
	t.Helper()
	image := e.image(t, "NATS_IMAGE")
	_, url := startPostgres(t, e, false)
	c := &boxedCluster{plant: &plant{postgresURL: url}}
	clients := e.network(t)
	c.routes = e.network(t, network.WithInternal())
	var urls []string
	for n := range 3 {
		name := fmt.Sprintf("n%d", n+1)
		options := append(natsOptions("-n", name, "--cluster_name", "airlock", "--cluster", "nats://0.0.0.0:6222", "--no_advertise",
			"--routes", "nats://r-n1:6222,nats://r-n2:6222,nats://r-n3:6222"),
			network.WithNetwork(nil, clients), network.WithNetwork([]string{"r-" + name}, c.routes))
		node := e.start(t, image, []string{"4222/tcp", "8222/tcp"}, options...)
		node.name = name
		c.nodes = append(c.nodes, node)
		urls = append(urls, "nats://"+node.address("4222/tcp"))
	}
	c.natsURL = strings.Join(urls, ",")
	return c
}

func (e *engine) network(t *testing.T, options ...network.NetworkCustomizer) *testcontainers.DockerNetwork {
	t.Helper()
	n, err := network.New(t.Context(), append(options, network.WithLabels(labels()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.do(t, "remove network", n.Remove) })
	return n
}

// stream looks at a stream through one node; nil when that node cannot tell.
func (c *boxedCluster) stream(t *testing.T, through *boxed, name string) *jetstream.StreamInfo {
	t.Helper()
	nc, err := nats.Connect("nats://"+through.address("4222/tcp"), nats.Timeout(2*time.Second))
	if err != nil {
		return nil
	}
	defer nc.Close()
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(2*time.Second))
	if err != nil {
		return nil
	}
	stream, err := js.Stream(t.Context(), name)
	if err != nil {
		return nil
	}
	return stream.CachedInfo()
}

// lead makes a node the leader of stream JOBS.
func (c *boxedCluster) lead(t *testing.T, node *boxed) {
	t.Helper()
	until(t, electing, node.name+" leads JOBS", func() bool {
		info := c.stream(t, node, "JOBS")
		if info == nil || info.Cluster == nil || info.Cluster.Leader == "" {
			return false
		}
		if info.Cluster.Leader == node.name {
			return true
		}
		nc, err := nats.Connect("nats://" + node.address("4222/tcp"))
		if err != nil {
			return false
		}
		defer nc.Close()
		_, err = nc.Request("$JS.API.STREAM.LEADER.STEPDOWN.JOBS", fmt.Appendf(nil, `{"placement": {"preferred": %q}}`, node.name), 2*time.Second)
		return err == nil && c.stream(t, node, "JOBS") != nil && c.stream(t, node, "JOBS").Cluster.Leader == node.name
	})
}

// clients lists who is connected to a node.
func (c *boxedCluster) clients(t *testing.T, node *boxed) (names []string) {
	t.Helper()
	resp, err := http.Get("http://" + node.address("8222/tcp") + "/connz")
	if err != nil {
		t.Fatalf("ask %s for its clients: %v", node.name, err)
	}
	defer resp.Body.Close()
	var answer struct {
		Connections []struct {
			Name string `json:"name"`
		} `json:"connections"`
	}
	if err := json.UnmarshalRead(resp.Body, &answer); err != nil {
		t.Fatalf("ask %s for its clients: %v", node.name, err)
	}
	for _, conn := range answer.Connections {
		names = append(names, conn.Name)
	}
	return names
}

// workers counts the workers that are connected to a node.
func (c *boxedCluster) workers(t *testing.T, node *boxed) (count int) {
	t.Helper()
	for _, name := range c.clients(t, node) {
		if strings.HasPrefix(name, "worker ") {
			count++
		}
	}
	return count
}

// victim is a node that a worker is connected to; other is one of the rest.
func (c *boxedCluster) victim(t *testing.T) (victim, other *boxed) {
	t.Helper()
	for i, node := range c.nodes {
		if c.workers(t, node) > 0 {
			return node, c.nodes[(i+1)%len(c.nodes)]
		}
	}
	t.Fatal("no worker is connected to any node")
	return nil, nil
}

// current waits until each replica of JOBS is up to date.
func (c *boxedCluster) current(t *testing.T) {
	t.Helper()
	until(t, electing, "three current replicas of JOBS", func() bool {
		info := c.stream(t, c.nodes[0], "JOBS")
		if info == nil || info.Cluster == nil || info.Cluster.Leader == "" || len(info.Cluster.Replicas) != 2 {
			return false
		}
		for _, r := range info.Cluster.Replicas {
			if !r.Current {
				return false
			}
		}
		return true
	})
}

func (b *boxed) kill(t *testing.T) {
	b.do(t, "kill", func(ctx context.Context) error {
		_, err := b.ContainerKill(ctx, b.id, client.ContainerKillOptions{})
		return err
	})
}

func (b *boxed) revive(t *testing.T) {
	b.do(t, "start", func(ctx context.Context) error {
		_, err := b.ContainerStart(ctx, b.id, client.ContainerStartOptions{})
		return err
	})
}

func (b *boxed) pause(t *testing.T) {
	b.do(t, "pause", func(ctx context.Context) error {
		_, err := b.ContainerPause(ctx, b.id, client.ContainerPauseOptions{})
		return err
	})
}

func (b *boxed) unpause(t *testing.T) {
	b.do(t, "unpause", func(ctx context.Context) error {
		_, err := b.ContainerUnpause(ctx, b.id, client.ContainerUnpauseOptions{})
		return err
	})
}

// cut takes a node from the others; its clients stay connected.
func (c *boxedCluster) cut(t *testing.T, node *boxed) {
	node.do(t, "disconnect", func(ctx context.Context) error {
		_, err := node.NetworkDisconnect(ctx, c.routes.ID, client.NetworkDisconnectOptions{Container: node.id})
		return err
	})
}

func (c *boxedCluster) heal(t *testing.T, node *boxed) {
	node.do(t, "connect", func(ctx context.Context) error {
		_, err := node.NetworkConnect(ctx, c.routes.ID, client.NetworkConnectOptions{
			Container: node.id, EndpointConfig: &dockernet.EndpointSettings{Aliases: []string{"r-" + node.name}},
		})
		return err
	})
}

func TestAClusterThatLosesANodeLosesNothing(t *testing.T) {
	t.Parallel()
	c := startBoxedCluster(t, containerEngine(t))
	for range 2 {
		c.worker(t, "--backends", "fake", "--slots", "4", "--log-level", "warn")
	}
	for _, name := range []string{"JOBS", "QUEUED", "RESULTS", "KV_LANES", "KV_WORKERS", "KV_CANCELS", "KV_KEYS", "BLOBS", "OUTPUTS"} {
		if info := c.stream(t, c.nodes[0], name); info == nil || info.Config.Replicas != 3 {
			t.Errorf("stream %s: got %+v, want 3 replicas", name, info)
		}
	}
	var shifts []*shift
	for _, tc := range []struct {
		name        string
		hurt, mend  func(*testing.T, *boxed)
		leaves      bool // its clients stay connected and have to leave by themselves
		atLeastDown time.Duration
	}{
		{name: "killed", hurt: func(t *testing.T, n *boxed) { n.kill(t) }, mend: func(t *testing.T, n *boxed) { n.revive(t) }},
		{name: "disconnected", hurt: c.cut, mend: c.heal, leaves: true},
		{name: "paused", hurt: func(t *testing.T, n *boxed) { n.pause(t) }, mend: func(t *testing.T, n *boxed) { n.unpause(t) }, atLeastDown: frozen},
	} {
		if !t.Run(tc.name, func(sub *testing.T) {
			const jobs = 500
			victim, other := c.victim(sub)
			c.lead(sub, victim)
			// The batch outlives this part of the test.
			s := c.begin(t, "node-"+tc.name, jobs, `{"code": "{\"fake\": {\"sleep\": \"40ms\", \"value\": %d}}", "requires": {"isolation": "none"}}`)
			s.awaitFinished(sub, 60*time.Second, jobs/5)
			tc.hurt(sub, victim)
			hurt := time.Now()
			until(sub, electing, "another leader of JOBS", func() bool {
				info := c.stream(sub, other, "JOBS")
				return info != nil && info.Cluster != nil && info.Cluster.Leader != "" && info.Cluster.Leader != victim.name
			})
			// It goes on without the node.
			s.awaitFinished(sub, 90*time.Second, min(jobs, s.finished(t)+jobs/5))
			if tc.leaves {
				until(sub, electing, "the workers' departure from the node that is alone", func() bool { return c.workers(sub, victim) == 0 })
			}
			until(sub, frozen+electing, "the node down long enough", func() bool { return time.Since(hurt) >= tc.atLeastDown })
			tc.mend(sub, victim)
			shifts = append(shifts, s)
			c.current(sub)
		}) {
			return // what follows would only repeat it
		}
	}
	// Together, for a delivery that was lost waits out AckWait.
	for _, s := range shifts {
		s.endsWhole(t, 150*time.Second)
	}
	c.empties(t)
}
