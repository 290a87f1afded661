package integration_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	dockernet "github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	tclog "github.com/testcontainers/testcontainers-go/log"
)

const (
	// madeHere labels what these tests make in an engine.
	madeHere = "airlock.integration"
	// abandoned is the age at which what a killed run left is removed; a run
	// itself takes less than go test's time-out.
	abandoned = time.Hour
	// engineWait bounds one request to the engine.
	engineWait = time.Minute
)

// engine is the Docker Engine of the containers' tests.
type engine struct {
	*testcontainers.DockerClient
	// near is set when the engine shares this machine's network: what it
	// publishes is then kept on loopback.
	near bool
}

var dockerEngine struct {
	once sync.Once
	here *engine
	err  error
}

// containerEngine returns the engine that DOCKER_HOST names, or skips the test.
func containerEngine(t testing.TB) *engine {
	t.Helper()
	dockerEngine.once.Do(func() { dockerEngine.here, dockerEngine.err = openEngine() })
	if dockerEngine.err != nil {
		absent(t, "docker", fmt.Sprintf("no Docker Engine (%v): set DOCKER_HOST, or see dev/dockerd.sh start", dockerEngine.err))
	}
	return dockerEngine.here
}

// openEngine reads where the engine is before the library does: the library
// reads its own environment once, and caches it.
func openEngine() (*engine, error) {
	tclog.SetDefault(silent{})
	ctx, cancel := context.WithTimeout(context.Background(), engineWait)
	defer cancel()
	look, err := client.New(client.FromEnv)
	if err != nil {
		return nil, err
	}
	defer look.Close()
	e := &engine{}
	if e.near, err = shareNetwork(ctx, look); err != nil {
		return nil, err
	}
	if _, set := os.LookupEnv("TESTCONTAINERS_HOST_OVERRIDE"); e.near && !set {
		// Inside a container the library believes the engine outside of it.
		os.Setenv("TESTCONTAINERS_HOST_OVERRIDE", "127.0.0.1")
	}
	if _, set := os.LookupEnv("TESTCONTAINERS_RYUK_DISABLED"); !set && !hasReaper(ctx, look) {
		// Its image would be pulled. We clean up by label.
		os.Setenv("TESTCONTAINERS_RYUK_DISABLED", "true")
	}
	if e.DockerClient, err = testcontainers.NewDockerClientWithOpts(ctx); err != nil {
		return nil, err
	}
	return e, e.removeAbandoned(ctx)
}

type silent struct{}

func (silent) Printf(string, ...any) {}

// shareNetwork reports whether the gateway of the engine's bridge is an
// address of this machine.
func shareNetwork(ctx context.Context, look *client.Client) (bool, error) {
	bridge, err := look.NetworkInspect(ctx, "bridge", client.NetworkInspectOptions{})
	if err != nil {
		return false, err
	}
	ours, err := net.InterfaceAddrs()
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(bridge.Network.IPAM.Config, func(c dockernet.IPAMConfig) bool {
		return slices.ContainsFunc(ours, func(a net.Addr) bool {
			prefix, err := netip.ParsePrefix(a.String())
			return err == nil && prefix.Addr() == c.Gateway
		})
	}), nil
}

func hasReaper(ctx context.Context, look *client.Client) bool {
	list, err := look.ImageList(ctx, client.ImageListOptions{Filters: client.Filters{}.Add("reference", "testcontainers/ryuk")})
	return err == nil && len(list.Items) > 0
}

// removeAbandoned removes what runs left that were killed.
func (e *engine) removeAbandoned(ctx context.Context) error {
	return e.removeLabelled(ctx, madeHere, func(made time.Time) bool { return time.Since(made) > abandoned })
}

// removeContainers removes whatever this run left behind, as a test that was
// cut short does.
func removeContainers() {
	if dockerEngine.here == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), engineWait)
	defer cancel()
	err := dockerEngine.here.removeLabelled(ctx, madeHere+"="+testcontainers.SessionID(), func(time.Time) bool { return true })
	if err != nil {
		fmt.Fprintln(os.Stderr, "containers may be left:", err)
	}
}

func (e *engine) removeLabelled(ctx context.Context, label string, which func(made time.Time) bool) error {
	filter := client.Filters{}.Add("label", label)
	containers, err := e.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: filter})
	if err != nil {
		return err
	}
	for _, c := range containers.Items {
		if !which(time.Unix(c.Created, 0)) {
			continue
		}
		if _, err := e.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true}); err != nil {
			return err
		}
	}
	networks, err := e.NetworkList(ctx, client.NetworkListOptions{Filters: filter})
	if err != nil {
		return err
	}
	for _, n := range networks.Items {
		if !which(n.Created) {
			continue
		}
		if _, err := e.NetworkRemove(ctx, n.ID, client.NetworkRemoveOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// image returns the name of a service's image, as docker-compose.yml has it,
// or skips the test when the engine lacks it: tests pull nothing.
func (e *engine) image(t testing.TB, variable string) string {
	t.Helper()
	name := os.Getenv(variable)
	if name == "" {
		file, err := os.ReadFile("../docker-compose.yml")
		found := regexp.MustCompile(`\$\{` + variable + `:-([^}]+)\}`).FindSubmatch(file)
		if found == nil {
			absent(t, "docker", fmt.Sprintf("docker-compose.yml names no image (%v): set %s", err, variable))
		}
		name = string(found[1])
	}
	if _, err := e.ImageInspect(t.Context(), name); err != nil {
		service := strings.ToLower(strings.TrimSuffix(variable, "_IMAGE"))
		absent(t, "docker", fmt.Sprintf("the engine has no image %s (%v): dev/images.sh %s sees to it", name, err, service))
	}
	return name
}

// boxed is a container with the ports that it keeps over restarts.
type boxed struct {
	*engine
	name, id string
	host     string
	ports    map[string]string // of the container → of the host
}

// start runs an image. Its ports get numbers of our choice, since the engine
// would choose new ones at each restart.
func (e *engine) start(t testing.TB, image string, ports []string, options ...testcontainers.ContainerCustomizer) *boxed {
	t.Helper()
	b := &boxed{engine: e, ports: map[string]string{}}
	bindings := dockernet.PortMap{}
	for _, port := range ports {
		b.ports[port] = freePort(t)
		binding := dockernet.PortBinding{HostPort: b.ports[port]}
		if e.near {
			binding.HostIP = netip.MustParseAddr("127.0.0.1")
		}
		bindings[dockernet.MustParsePort(port)] = []dockernet.PortBinding{binding}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	options = append(options, testcontainers.WithExposedPorts(ports...), testcontainers.WithLabels(labels()),
		testcontainers.WithHostConfigModifier(func(host *container.HostConfig) { host.PortBindings = bindings }))
	c, err := testcontainers.Run(ctx, image, options...)
	if c != nil {
		b.id = c.GetContainerID()
		t.Cleanup(func() { b.remove(t) })
	}
	if err == nil {
		b.host, err = c.Host(ctx)
	}
	if err != nil {
		t.Fatalf("start %s: %v", image, err)
	}
	return b
}

func labels() map[string]string { return map[string]string{madeHere: testcontainers.SessionID()} }

func (b *boxed) address(port string) string { return net.JoinHostPort(b.host, b.ports[port]) }

// do makes one request to the engine, also when the test's context is over.
func (e *engine) do(t testing.TB, what string, request func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), engineWait)
	defer cancel()
	if err := request(ctx); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// remove also shows what the container said, if the test failed.
func (b *boxed) remove(t testing.TB) {
	if t.Failed() {
		b.do(t, "read logs", func(ctx context.Context) error { return b.showLogs(ctx, t) })
	}
	b.do(t, "remove container", func(ctx context.Context) error {
		_, err := b.ContainerRemove(ctx, b.id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		return err
	})
}

func (b *boxed) showLogs(ctx context.Context, t testing.TB) error {
	logs, err := b.ContainerLogs(ctx, b.id, client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true, Tail: "40"})
	if err != nil {
		return err
	}
	defer logs.Close()
	text := make([]byte, 16<<10)
	n, _ := logs.Read(text)
	t.Logf("%s said:\n%s", b.name, text[:n])
	return nil
}

func (b *boxed) restart(t testing.TB) {
	t.Helper()
	b.do(t, "restart container", func(ctx context.Context) error {
		_, err := b.ContainerRestart(ctx, b.id, client.ContainerRestartOptions{})
		return err
	})
}

// freePort returns a port that nothing listens on, below those that the system
// hands out by itself.
func freePort(t testing.TB) string {
	t.Helper()
	for range 100 {
		port := strconv.Itoa(20_000 + rand.N(12_000))
		if l, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal("no free port was found")
	return ""
}

// absent skips the test, or fails it when AIRLOCK_REQUIRE names the service.
func absent(t testing.TB, service, why string) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv("AIRLOCK_REQUIRE"), ","), service) {
		t.Fatalf("%s is required: %s", service, why)
	}
	t.Skip(why)
}
