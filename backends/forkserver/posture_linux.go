package forkserver

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"airlock/backends/internal/guestproc"
)

// checkPosture looks at a guest from outside: that each step of its confinement
// was taken, which is up to interpreted code, and that it is this slot's.
func (g *forked) checkPosture() error {
	err := guestproc.CheckRights(g.pid, map[string]string{"PPid": strconv.Itoa(g.slot.pid), "Threads": "1"})
	for _, name := range own {
		theirs, unknown := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", g.pid, name))
		if unknown != nil || theirs == g.slot.namespaces[name] {
			err = errors.Join(err, unknown, fmt.Errorf("the guest shares its slot's %s namespace", name))
		}
	}
	err = errors.Join(err, g.checkGroups())
	// What dies loses its groups and its parent before it is dead.
	if err != nil && (g.slot.ended() || g.main.Wait(time.Now().Add(dying))) {
		return fmt.Errorf("the guest ended while it was looked at: %w", err)
	}
	if err != nil {
		return fmt.Errorf("the guest is not confined: %w", err)
	}
	return nil
}

// dying is how long that may take.
const dying = 50 * time.Millisecond

// checkGroups looks whether the guest was born in the groups that the worker
// limits: a service manager may have moved the slot to others.
func (g *forked) checkGroups() error {
	if g.slot.group == nil {
		return nil
	}
	groups, err := groupsOf(g.pid)
	if err == nil && !bytes.Equal(groups, g.slot.home) {
		err = errors.New("the guest is not in its slot's control groups")
	}
	return err
}

func groupsOf(pid int) ([]byte, error) { return os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid)) }

// own are the namespaces that a guest does not have from its slot.
var own = [...]string{"mnt", "pid"}

// look looks at a slot from outside: its guests are born in its namespaces, and
// can leave none of them.
func (s *slot) look() error {
	if err := guestproc.CheckNamespaces(s.pid); err != nil {
		return fmt.Errorf("look at the slot: %w", err)
	}
	s.namespaces = map[string]string{}
	for _, name := range own {
		link, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", s.pid, name))
		if err != nil {
			return fmt.Errorf("look at the slot: %w", err)
		}
		s.namespaces[name] = link
	}
	return nil
}
