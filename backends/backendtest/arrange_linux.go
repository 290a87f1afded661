package backendtest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"airlock/job"
)

// openCanaries opens sockets on the host, which must have heard nobody when a
// walled guest is over.
func openCanaries(s *stage) {
	c := listen(s)
	s.after = append(s.after, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if s.suite.walled() && len(c.heard) > 0 {
			s.Errorf("the canaries of the host heard from the guest: %v", c.heard)
		}
	})
}

func canaryFile(s *stage) {
	dir := publicDir(s)
	path := filepath.Join(dir, "canary")
	for _, err := range []error{os.WriteFile(path, []byte("chirp"), 0o644), os.Chmod(dir, 0o777)} {
		if err != nil {
			s.Fatal(err)
		}
	}
	host, err := os.Hostname()
	if err != nil {
		s.Fatal(err)
	}
	digests := map[string]string{}
	for _, name := range []string{"passwd", "group", "hosts", "resolv.conf", "machine-id", "hostname"} {
		if text, err := os.ReadFile("/etc/" + name); err == nil && len(text) > 0 {
			sum := sha256.Sum256(text[:min(len(text), 1<<16)])
			digests["/etc/"+name] = hex.EncodeToString(sum[:])
		}
	}
	plantAtHome(s)
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		s.Fatal(err)
	}
	s.vars["BOOT"] = strings.TrimSpace(string(boot))
	s.vars["CANARY"], s.vars["HOSTNAME"], s.vars["ETC"] = path, host, digests
	s.after = append(s.after, func() {
		if entries, _ := os.ReadDir(dir); len(entries) != 1 {
			s.Errorf("the guest changed a directory of the host: %v", entries)
		}
	})
}

// plantAtHome puts a canary into the home directory for as long as the guest
// runs.
func plantAtHome(s *stage) {
	places := homeCanary(s.marker)
	for _, place := range places {
		if err := os.WriteFile(place, []byte("chirp"), 0o644); err != nil {
			s.Fatal(err)
		}
		s.Cleanup(func() { _ = os.Remove(place) })
	}
	s.vars["HOMES"] = append([]string{}, places...)
}

// exposeVictim starts a process that must still be there when a walled guest
// is over, and must be dead where there is no wall.
func exposeVictim(s *stage) {
	cmd := victim(s)
	s.vars["VICTIM"], s.vars["TAG"] = cmd.Process.Pid, "victim-"+s.marker[1:]
	s.after = append(s.after, func() {
		dir := fmt.Sprintf("/proc/%d", cmd.Process.Pid)
		dead := func() bool { return strings.HasPrefix(status(dir, "State"), "Z") || status(dir, "State") == "" }
		if s.suite.walled() && dead() {
			s.Error("the guest killed a process of the host")
		}
		if !s.suite.walled() && !eventually(dead) {
			s.Error("the victim lives, so that this check would not see one that was killed")
		}
	})
}

// eventually waits for something that the kernel does in its own time.
func eventually(happened func() bool) bool {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-tick.C {
		if happened() {
			return true
		}
	}
	return false
}

// posture gives the guest the tool posture, by which the host looks at the
// guest's process while it runs.
func posture(s *stage) {
	s.tools["posture"] = func([]byte) any {
		dir := s.guestDir()
		if dir == "" {
			return nil
		}
		zero := func(field string) bool { return strings.Trim(status(dir, field), "0") == "" }
		namespaces := false
		for _, kind := range []string{"mnt", "net", "pid", "ipc", "uts", "user", "cgroup"} {
			theirs, err1 := os.Readlink(dir + "/ns/" + kind)
			ours, err2 := os.Readlink("/proc/self/ns/" + kind)
			shared := err1 != nil || err2 != nil || theirs == ours
			if why := s.suite.Shares[kind]; shared && why != "" {
				s.Logf("the %s namespace is the host's: %s", kind, why)
				continue
			}
			namespaces = namespaces || shared
		}
		roots := " " + status(dir, "Uid") + " " + status(dir, "Gid") + " "
		return map[string]string{
			"root outside":           told(strings.Contains(strings.ReplaceAll(roots, "\t", " "), " 0 ")),
			"capabilities":           told(!zero("CapEff") || !zero("CapPrm") || !zero("CapInh") || !zero("CapAmb")),
			"capabilities to be had": told(!zero("CapBnd")),
			"no system-call filter":  told(status(dir, "Seccomp") != "2"),
			"may gain privileges":    told(status(dir, "NoNewPrivs") != "1"),
			"the host's namespaces":  told(namespaces),
		}
	}
}

func told(breached bool) string {
	if breached {
		return through
	}
	return "no effect"
}

// earlierGuest runs a guest that leaves files, before the one that looks for
// them.
func earlierGuest(s *stage) {
	s.vars["TOKEN"] = s.marker
	s.Cleanup(func() {
		for _, dir := range []string{"/tmp", "/dev/shm", "/var/tmp"} {
			_ = os.Remove(filepath.Join(dir, s.marker))
		}
	})
	g := s.suite.run(s.T, story{code: program("leave.py"), arrange: func(first *stage) { first.vars["TOKEN"] = s.marker }})
	value("1")(s.T, g)
}

// neighbour has a guest running for as long as the one that looks for it.
func neighbour(s *stage) {
	token := newMarker()
	settled, over := make(chan int, 1), make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		g := s.suite.run(s.T, story{code: program("neighbour.py"), arrange: func(n *stage) {
			n.vars["TOKEN"] = token
			n.tools["settled"] = func(arguments []byte) any {
				var a struct {
					Port int `json:"port"`
				}
				if err := job.DecodeStrict(arguments, &a); err != nil {
					s.Error(err)
				}
				settled <- a.Port
				<-over
				return nil
			}
		}})
		value(`"unharmed"`)(s.T, g)
	}()
	s.vars["TOKEN"], s.vars["PORT"] = token, 0
	select {
	case port := <-settled:
		s.vars["PORT"] = port
	case <-ended:
		s.Error("the neighbour did not stay")
	}
	s.after = append(s.after, func() { close(over); <-ended })
}

// openInheritable opens path without close-on-exec, on purpose.
func openInheritable(path string) (int, error) { return syscall.Open(path, syscall.O_RDONLY, 0) }

func closeDescriptor(fd int) { _ = syscall.Close(fd) }
