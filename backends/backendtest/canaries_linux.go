package backendtest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// canaries are what a test opens on the host for a guest to reach. Each hears
// who came.
type canaries struct {
	// mu guards heard.
	mu    sync.Mutex
	heard map[string]bool
	all   sync.WaitGroup
}

// listen opens a canary of every kind of socket, and tells the guest where.
func listen(s *stage) *canaries {
	c := &canaries{heard: map[string]bool{}}
	s.Cleanup(c.all.Wait) // after the clean-ups below, which close what it waits for
	dir := publicDir(s)
	path := filepath.Join(dir, "sock")
	for name, addr := range map[string][2]string{
		"tcp4": {"tcp4", "127.0.0.1:0"}, "tcp6": {"tcp6", "[::1]:0"},
		"wide": {"tcp4", "0.0.0.0:0"}, "unix": {"unix", path}, "abstract": {"unix", "@" + s.marker},
	} {
		l, err := net.Listen(addr[0], addr[1])
		if err != nil {
			s.vars[name] = nil
			continue
		}
		s.vars[name] = address(l.Addr())
		c.all.Go(func() { c.accept(name, l) })
		s.Cleanup(func() { l.Close() })
	}
	s.vars["HOSTS"], s.vars["WIDE"] = append([]string{}, hostAddresses()...), s.vars["wide"].([]any)[1]
	if err := os.Chmod(path, 0o777); err != nil {
		s.Fatal(err)
	}
	u, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		s.Fatal(err)
	}
	s.vars["udp"] = address(u.LocalAddr())
	c.all.Go(func() { c.receive("udp", u) })
	s.Cleanup(func() { u.Close() })
	return c
}

func address(a net.Addr) any {
	switch a := a.(type) {
	case *net.TCPAddr:
		return []any{a.IP.String(), a.Port}
	case *net.UDPAddr:
		return []any{a.IP.String(), a.Port}
	}
	return strings.Replace(a.String(), "@", "\x00", 1)
}

// accept answers whoever connects, so that the guest knows that it got
// through.
func (c *canaries) accept(name string, l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		c.hear(name)
		_, _ = io.WriteString(conn, "chirp")
		_ = conn.Close()
	}
}

func (c *canaries) receive(name string, u net.PacketConn) {
	buf := make([]byte, 64)
	for {
		_, from, err := u.ReadFrom(buf)
		if err != nil {
			return
		}
		c.hear(name)
		_, _ = u.WriteTo([]byte("chirp"), from)
	}
}

func (c *canaries) hear(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard[name] = true
}

// victim starts a process of the host with the environment's secret for a
// guest to find, read or kill.
func victim(s *stage) *exec.Cmd {
	cmd := exec.Command("/usr/bin/env", "python3", "-c", "import sys\nprint('up', flush=True)\nsys.stdin.read()", "victim-"+s.marker[1:])
	in, err := cmd.StdinPipe()
	if err != nil {
		s.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { in.Close(); _ = cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "up\n" {
		s.Fatal(fmt.Errorf("victim said %q: %v", line, err))
	}
	return cmd
}

// inheritable opens a descriptor that a careless exec would pass on.
func inheritable(s *stage) {
	fd, err := openInheritable("/dev/null")
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { closeDescriptor(fd) })
}
