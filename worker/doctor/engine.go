package doctor

import (
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// root is what reaching an engine means.
const root = "whoever can talk to an engine can become root on its host"

// engineSocket says who can talk to the engine by its socket.
func engineSocket(_ context.Context, h Host) []Finding {
	path, ok := strings.CutPrefix(h.engine().Address, "unix://")
	if !ok {
		return nil
	}
	info, ok := h.stat(path)
	if !ok {
		return nil // no engine, no power
	}
	if info.Mode().Perm()&0o002 != 0 {
		return found(Critical, fmt.Sprintf("every user may write to %s: %s", show(path), root), "chmod o-rw "+show(path))
	}
	uid, gid, ok := owner(info)
	if !ok {
		return unchecked("who " + show(path) + " belongs to is not told by this system")
	}
	var who []string
	if uid != 0 {
		who = append(who, "its owner, uid "+strconv.Itoa(uid))
	}
	if info.Mode().Perm()&0o020 != 0 && gid != 0 {
		who = append(who, h.members(gid))
	}
	if len(who) == 0 {
		return found(Info, fmt.Sprintf("only root may write to %s; %s", show(path), root), "")
	}
	return found(Info, fmt.Sprintf("%s may be written to by %s; %s", show(path), strings.Join(who, " and "), root),
		"keep that group to those who may be root; a worker in a container needs the group, and no other privilege")
}

// members names a group and who is in it.
func (h Host) members(gid int) string {
	name, in := strconv.Itoa(gid), []string{}
	groups, _ := h.read("etc/group")
	for line := range strings.Lines(groups) {
		if f := strings.Split(strings.TrimSpace(line), ":"); len(f) == 4 && f[2] == strconv.Itoa(gid) {
			name = f[0]
			in = append(in, strings.FieldsFunc(f[3], func(r rune) bool { return r == ',' })...)
		}
	}
	users, _ := h.read("etc/passwd")
	for line := range strings.Lines(users) {
		if f := strings.Split(strings.TrimSpace(line), ":"); len(f) == 7 && f[3] == strconv.Itoa(gid) && !slices.Contains(in, f[0]) {
			in = append(in, f[0])
		}
	}
	if len(in) == 0 {
		return fmt.Sprintf("group %s, which has no members", show(name))
	}
	return fmt.Sprintf("group %s: %s", show(name), show(strings.Join(in, ", ")))
}

// dockerPort is the one that engines listen on without TLS, by convention.
const dockerPort = 2375

// engineTCP: an engine that is reached over TCP without TLS asks nobody who he
// is.
func engineTCP(_ context.Context, h Host) []Finding {
	const remedy = "have the engine listen on its socket only, or ask for certificates with --tlsverify"
	e := h.engine()
	if u, err := url.Parse(e.Address); err == nil && (u.Scheme == "tcp" || u.Scheme == "http") && !e.TLS {
		return found(Critical, fmt.Sprintf("the engine is reached at %s without TLS: whoever reaches it can become root on its host", show(u.Redacted())), remedy)
	}
	for _, address := range h.listening(dockerPort) {
		return found(Critical, fmt.Sprintf("something listens on %s, where engines talk without TLS: whoever reaches one can become root here", address), remedy)
	}
	return nil
}

// listening are the addresses at which the port is listened on, as far as the
// kernel tells.
func (h Host) listening(port int) (addresses []string) {
	const listen = "0A"
	for _, table := range []string{"proc/net/tcp", "proc/net/tcp6"} {
		text, _ := h.read(table)
		for line := range strings.Lines(text) {
			f := strings.Fields(line)
			if len(f) < 4 || f[3] != listen {
				continue
			}
			ip, hexPort, _ := strings.Cut(f[1], ":")
			if n, err := strconv.ParseUint(hexPort, 16, 16); err == nil && int(n) == port {
				addresses = append(addresses, net.JoinHostPort(kernelIP(ip), strconv.Itoa(port)))
			}
		}
	}
	return addresses
}

// kernelIP reads an address as the kernel prints it: words of four bytes, each
// with the last byte first on the machines that there are.
func kernelIP(text string) string {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw)%4 != 0 {
		return show(text)
	}
	for word := range slices.Chunk(raw, 4) {
		slices.Reverse(word)
	}
	return net.IP(raw).String()
}

// engineUsers: what a guest that broke out of its container would be.
func engineUsers(_ context.Context, h Host) []Finding {
	e := h.engine()
	if e.Version == "" || e.Rootless || e.Remapped {
		return nil
	}
	return found(Info, "the engine runs as root and does not remap the users of containers: root in a container that somebody else starts is root here",
		"give the engine userns-remap, or run it rootless, where nothing else needs it otherwise")
}

func engineRestart(_ context.Context, h Host) []Finding {
	e := h.engine()
	if e.Version == "" || e.LiveRestore {
		return nil
	}
	return found(Info, "a restart of the engine ends all guests; their jobs are run again", `set "live-restore": true in /etc/docker/daemon.json`)
}
