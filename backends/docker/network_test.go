package docker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"airlock/backends"
	"airlock/backends/docker"
	"airlock/job"

	"github.com/docker/docker/api/types/network"
	"github.com/rs/zerolog"
)

// probeNetwork probes with that network, and returns what was logged too.
func probeNetwork(t *testing.T, name string) (backends.Capabilities, string, error) {
	t.Helper()
	var logged bytes.Buffer
	b := docker.New(docker.Config{Log: zerolog.New(&logged), Network: name})
	defer b.Close()
	can, err := b.Probe(t.Context())
	return can, logged.String(), err
}

// TestRefusedNetworks: no guest is in a network that is not the guests' alone,
// by whatever name it is called.
func TestRefusedNetworks(t *testing.T) {
	t.Parallel()
	open(t, docker.Config{})
	api := engineClient(t)
	bridge, err := api.NetworkInspect(t.Context(), "bridge", network.InspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"bridge", "host", "none", "default", "container:x", bridge.ID, bridge.ID[:12]} {
		if _, _, err := probeNetwork(t, name); !errors.Is(err, backends.ErrUnavailable) || !strings.Contains(err.Error(), "dev/guest-network.sh") {
			t.Errorf("%s: got error %v, want one that wraps ErrUnavailable and names dev/guest-network.sh", name, err)
		}
	}
}

// TestOpenNetworks: a network that lacks a wall, or is not there, is not
// offered, and the log says why; guests without a network are.
func TestOpenNetworks(t *testing.T) {
	t.Parallel()
	open(t, docker.Config{})
	api := engineClient(t)
	for _, tt := range []struct {
		name    string
		options map[string]string
		want    string
	}{
		{own("missing"), nil, "has no network " + own("missing")},
		{own("together"), map[string]string{}, "enable_icc"},
		{own("open"), map[string]string{"com.docker.network.bridge.enable_icc": "false"}, "reached "},
	} {
		if tt.options != nil {
			made, err := api.NetworkCreate(t.Context(), tt.name, network.CreateOptions{Driver: "bridge", Options: tt.options})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = api.NetworkRemove(context.Background(), made.ID) }()
		}
		can, logged, err := probeNetwork(t, tt.name)
		if err != nil || can.Network || !strings.Contains(logged, tt.want) || !strings.Contains(logged, "dev/guest-network.sh") {
			t.Errorf("%s: got network %v, log %q and error %v, want none and %q in the log", tt.name, can.Network, logged, err, tt.want)
		}
		b := docker.New(docker.Config{Network: tt.name})
		guest := task("pass", job.Limits{}, io.Discard)
		guest.Network = true
		if _, err := b.Run(t.Context(), guest); !errors.Is(err, backends.ErrUnenforceable) {
			t.Errorf("%s: a guest that wants it: got error %v, want one that wraps ErrUnenforceable", tt.name, err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

// guestNetwork runs dev/guest-network.sh, which needs root and a firewall.
func guestNetwork(t testing.TB, name string) {
	t.Helper()
	script := func(ctx context.Context, verb string) error {
		if said, err := exec.CommandContext(ctx, "../../dev/guest-network.sh", verb, name).CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, said)
		}
		return nil
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can set up a firewall")
	}
	for _, tool := range []string{"iptables", "docker", "ip"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	if err := script(t.Context(), "up"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := script(context.Background(), "down"); err != nil {
			t.Error(err)
		}
	})
}

// dial is a guest that tries to connect to each address, and prints those it
// reached, be it only to hear that nobody listens.
func dial(addresses ...string) string {
	return fmt.Sprintf(`
import errno, os, socket
for address in %q.split():
    host, port = address.rsplit(":", 1)
    try:
        with socket.socket() as s:
            s.settimeout(0.7)
            if s.connect_ex((host, int(port))) in (0, errno.ECONNREFUSED):
                os.write(1, (address + " ").encode())
    except OSError:
        pass
os._exit(0)`, strings.Join(addresses, " "))
}

// TestNetwork: a guest in the network reaches the world, and neither its host,
// the metadata service, private networks nor other containers; without asking
// it reaches nothing.
func TestNetwork(t *testing.T) {
	name := own("guests")
	plain := open(t, docker.Config{})
	guestNetwork(t, name)
	b := open(t, docker.Config{Network: name})
	can, err := b.Probe(t.Context())
	if err != nil || !can.Network || can.Isolated.Network != "" {
		t.Fatalf("got %+v and error %v, want a network on offer that the usual guest does not have", can, err)
	}
	host, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	_, port, _ := net.SplitHostPort(host.Addr().String())
	world := publicHost(t)
	found, err := engineClient(t).NetworkInspect(t.Context(), name, network.InspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	closed := []string{found.IPAM.Config[0].Gateway + ":" + port, besides(t, b, name) + ":22"}
	for _, address := range beyond {
		closed = append(closed, address+":47")
	}
	local, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range local {
		if ip := a.(*net.IPNet).IP; ip.To4() != nil && !ip.IsLoopback() {
			closed = append(closed, ip.String()+":"+port)
		}
	}
	for _, tt := range []struct {
		name    string
		backend *docker.Backend
		network bool
		want    string
	}{
		{"with a network", b, true, world + " "},
		{"without", b, false, ""},
	} {
		var reached strings.Builder
		limits := job.DefaultLimits()
		guest := task(dial(append(closed, world)...), limits, &reached)
		guest.Network = tt.network
		out, err := tt.backend.Run(t.Context(), guest)
		if err != nil || out.Cause != backends.Exited || reached.String() != tt.want {
			t.Errorf("%s: reached %q, got %+v and error %v, want %q", tt.name, reached.String(), out, err, tt.want)
		}
		if got := out.Isolated.Network; (got == name) != tt.network {
			t.Errorf("%s: the result names network %q", tt.name, got)
		}
	}
	guest := task("pass", job.Limits{}, io.Discard)
	guest.Network = true
	if _, err := plain.Run(t.Context(), guest); !errors.Is(err, backends.ErrUnenforceable) {
		t.Errorf("a backend without a network: got error %v, want one that wraps ErrUnenforceable", err)
	}
	names := task("import os\nos._exit(7 if 'nameserver' in open('/etc/resolv.conf').read() else 8)", job.Limits{}, io.Discard)
	names.Network = true
	if out, err := b.Run(t.Context(), names); err != nil || out.ExitCode != 7 {
		t.Errorf("got %+v and error %v, want exit 7: who resolves names is known", out, err)
	}
}

// besides starts another guest in the network and returns its address.
func besides(t *testing.T, b *docker.Backend, name string) string {
	t.Helper()
	said := make(chan string, 1)
	guest := task("import os, time\nos.write(1, b'up')\ntime.sleep(600)", job.Limits{}, writer(func(p []byte) { said <- string(p) }))
	guest.Network = true
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() {
		_, err := b.Run(ctx, guest)
		over <- err
	}()
	t.Cleanup(func() {
		stop()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
	select {
	case <-said:
	case err := <-over:
		over <- nil
		t.Fatalf("the other guest is over: %v", err)
	}
	found, err := engineClient(t).NetworkInspect(t.Context(), name, network.InspectOptions{})
	if err != nil || len(found.Containers) != 1 {
		t.Fatalf("got containers %v and error %v, want one", found.Containers, err)
	}
	for _, c := range found.Containers {
		address, _, _ := strings.Cut(c.IPv4Address, "/")
		return address
	}
	return ""
}

type writer func([]byte)

func (w writer) Write(p []byte) (int, error) {
	w(p)
	return len(p), nil
}

// own is a name that no other test on this host has.
func own(what string) string { return fmt.Sprintf("airlock-test-%d-%s", os.Getpid(), what) }

// beyond are addresses that publicHost answers at too and guests must not reach:
// those of metadata services, and private ones.
var beyond = []string{"169.254.169.254", "100.100.100.200", "192.0.0.192", "10.99.77.1", "172.31.77.1", "192.168.77.1"}

// publicHost makes a host with a public address, in a network namespace of its
// own, and returns the address of a service there.
func publicHost(t *testing.T) string {
	t.Helper()
	const near, far = "44.128.77.1", "44.128.77.2"
	space, link := own("world"), fmt.Sprintf("al-w%d", os.Getpid())
	ip := func(args ...string) error {
		if said, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, said)
		}
		return nil
	}
	t.Cleanup(func() {
		if err := ip("netns", "del", space); err != nil {
			t.Error(err)
		}
	})
	set := []string{
		"netns add " + space,
		"link add " + link + " type veth peer name far netns " + space,
		"addr add " + near + "/30 dev " + link, "link set " + link + " up",
		"-n " + space + " addr add " + far + "/30 dev far", "-n " + space + " link set far up", "-n " + space + " link set lo up",
		"-n " + space + " route add default via " + near,
	}
	for _, address := range beyond {
		set = append(set, "-n "+space+" addr add "+address+"/32 dev far", "route add "+address+"/32 dev "+link)
	}
	for _, args := range set {
		if err := ip(strings.Fields(args)...); err != nil {
			t.Fatal(err)
		}
	}
	// Nobody listens: that a host says so is enough to know that it is reached.
	return far + ":47"
}
