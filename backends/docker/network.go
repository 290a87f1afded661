package docker

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"airlock/job"

	"github.com/docker/docker/api/types/network"
)

// walled is a network that guests may have.
type walled struct{ name string }

// Networks that no guest may be in: the host's own, and the one that all of
// the engine's containers share.
var refusedNetworks = []string{"bridge", "host", "none", "default", "ingress"}

// metadata are the addresses at which clouds tell a machine its credentials.
var metadata = []string{"169.254.169.254", "fd00:ec2::254", "100.100.100.200", "192.0.0.192"}

// hostPorts are those of services that hosts have, and one that is hardly
// anybody's: a host that answers there at all can be reached.
var hostPorts = []int{22, 53, 80, 443, 2375, 2376, 4222, 5432, 47}

const networkAdvice = "make one with dev/guest-network.sh, which also sets up its rules after a boot"

// findNetwork looks for the network that guests may have and tests its walls
// from a guest in it. Without them the backend is offered without a network; a
// name that can never be right is an error.
func (r *ready) findNetwork(ctx context.Context, b *Backend, f *facts) error {
	name := r.config.Network
	if name == "" {
		return nil
	}
	if slices.Contains(refusedNetworks, name) || strings.Contains(name, ":") {
		return refusedNetwork(name)
	}
	found, err := r.engine.network(ctx, name)
	switch {
	case err != nil:
		return err
	case found == nil:
		err = fmt.Errorf("the engine has no network %s", job.Printable(name, 100))
	case slices.Contains(refusedNetworks, found.Name):
		return refusedNetwork(found.Name) // by its ID
	default:
		err = r.tryNetwork(ctx, b, f, found)
	}
	if ctx.Err() != nil {
		return err
	}
	if err != nil {
		r.config.Log.Warn().Err(err).Str("advice", networkAdvice).Msg("guests are offered no network")
		return nil
	}
	f.network = &walled{found.Name}
	return nil
}

func refusedNetwork(name string) error {
	return fmt.Errorf("guests cannot have the network %s, which is not theirs alone: %s", job.Printable(name, 100), networkAdvice)
}

// tryNetwork has a guest try what none may reach.
func (r *ready) tryNetwork(ctx context.Context, b *Backend, f *facts, found *network.Inspect) error {
	if found.Driver != "bridge" || found.Scope != "local" {
		return fmt.Errorf("the network %s is of the driver %s, want bridge", job.Printable(found.Name, 100), job.Printable(found.Driver, 40))
	}
	if found.Options["com.docker.network.bridge.enable_icc"] != "false" {
		return fmt.Errorf("guests in the network %s can reach each other: its option com.docker.network.bridge.enable_icc must be false", job.Printable(found.Name, 100))
	}
	g := &guest{ready: r, backend: b, facts: f, image: f.images[0], network: found.Name}
	if err := g.try(ctx, networkTest(targets(found, r.engine.near()))); err != nil {
		return fmt.Errorf("guests in the network %s reach what they must not: %w", job.Printable(found.Name, 100), err)
	}
	return nil
}

// targets are what a guest in the network must not reach.
func targets(found *network.Inspect, near bool) []netip.AddrPort {
	var all []netip.AddrPort
	for _, address := range metadata {
		for _, port := range []uint16{80, 443} {
			all = append(all, netip.AddrPortFrom(netip.MustParseAddr(address), port))
		}
	}
	for _, host := range hosts(found, near) {
		for _, port := range hostPorts {
			all = append(all, netip.AddrPortFrom(host, uint16(port)))
		}
	}
	return all
}

// maxHosts bounds how many addresses of the host are tried.
const maxHosts = 8

// hosts are addresses of the engine's host: the network's gateways, and where
// the engine is near our own.
func hosts(found *network.Inspect, near bool) []netip.Addr {
	var all []netip.Addr
	for _, pool := range found.IPAM.Config {
		if gateway, err := netip.ParseAddr(pool.Gateway); err == nil {
			all = append(all, gateway)
		}
	}
	if !near {
		return all
	}
	own, _ := net.InterfaceAddrs() // without them the gateways are tried
	for _, address := range own {
		prefix, err := netip.ParsePrefix(address.String())
		if err == nil && prefix.Addr().IsGlobalUnicast() && !slices.Contains(all, prefix.Addr()) {
			all = append(all, prefix.Addr())
		}
	}
	return all[:min(len(all), maxHosts)]
}

// networkTest is what the guest runs. An address that refuses a connection has
// been reached; one that is dropped answers nothing, and one without a route
// fails at once.
func networkTest(targets []netip.AddrPort) string {
	var list strings.Builder
	for _, t := range targets {
		fmt.Fprintf(&list, "(%q, %d), ", t.Addr(), t.Port())
	}
	return "TARGETS = [" + list.String() + "]\n" + `
import errno, select, socket, time
nowhere = {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EACCES, errno.ETIMEDOUT, errno.EADDRNOTAVAIL}
trying, reached = {}, []
poll = select.poll()
def judge(target, error):
    if error in (0, errno.ECONNREFUSED, errno.ECONNRESET):
        reached.append("%s:%d" % target)
    elif error not in nowhere:
        raise OSError(error, "cannot try %s:%d" % target)
for target in TARGETS:
    try:
        s = socket.socket(socket.AF_INET6 if ":" in target[0] else socket.AF_INET)
    except OSError as e:
        if e.errno == errno.EAFNOSUPPORT: continue
        raise
    s.setblocking(False)
    error = s.connect_ex(target)
    if error == errno.EINPROGRESS:
        trying[s.fileno()] = (s, target)
        poll.register(s, select.POLLOUT)
    else:
        judge(target, error)
end = time.monotonic() + 1.5
while trying and (left := end - time.monotonic()) > 0:
    for fd, _ in poll.poll(left * 1000):
        poll.unregister(fd)
        s, target = trying.pop(fd)
        judge(target, s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
if reached:
    raise ConnectionError("reached " + ", ".join(reached[:8]))
`
}
