package forkserver

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"airlock/backends/internal/guestproc"
)

// checkPosture looks at a guest from outside: that each step of its confinement
// was taken, which is up to interpreted code, and that it is this slot's.
func (g *forked) checkPosture() error {
	err := guestproc.CheckPosture(g.pid, map[string]string{"PPid": strconv.Itoa(g.slot.pid), "Threads": "1"})
	for _, name := range []string{"mnt", "pid"} {
		err = errors.Join(err, g.checkOwn(name))
	}
	if err != nil {
		return fmt.Errorf("the guest is not confined: %w", err)
	}
	return nil
}

// checkOwn compares a namespace of the guest's own with its slot's.
func (g *forked) checkOwn(name string) error {
	theirs, err1 := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", g.pid, name))
	slots, err2 := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", g.slot.pid, name))
	if err1 != nil || err2 != nil || theirs == slots {
		return errors.Join(fmt.Errorf("the guest shares its slot's %s namespace", name), err1, err2)
	}
	return nil
}
