package cgroup

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"airlock/backends/internal/owner"
)

// Host is the place where a worker makes its groups. Its methods may be
// called from several goroutines at once.
type Host struct {
	version version
	owner   owner.Owner
	// parents are the groups of our own, below which guests' are made.
	parents map[Controller]string
	// token keeps the names of several hosts of one worker apart.
	token string
	made  atomic.Int64
}

// version is what differs between the two kinds of control groups.
type version interface {
	String() string
	limit(g *Group, l Limits) error
	// relimit is limit for a group that has limits.
	relimit(g *Group, l Limits) error
	cpu(g *Group) (int64, error)
	usage(g *Group) (Usage, error)
	enter(g *Group, start Starter) error
	// prepareKill makes a kill effective at once.
	prepareKill(g *Group)
	unthrottle(g *Group)
	// resetPeak begins the count of a visit's peak of memory anew; resets
	// reports whether the kernel can.
	resetPeak(g *Group) error
	resets(g *Group) bool
}

// Open finds the host's control groups, proves that groups can be made and
// limits set, and removes what dead workers left. It may change the worker's
// own place: on version 2 a group that limits its children holds no process
// itself, so the worker moves into a leaf.
func Open() (*Host, error) {
	self, err := owner.This()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	mounts, err := readMounts("/proc/self/mountinfo", "/proc/self/cgroup")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	h := &Host{owner: self, token: rand.Text()[:8]}
	if mounts.v1[Memory] != "" || mounts.v1[Processes] != "" {
		h.version, h.parents = v1{own: mounts.v1}, mounts.v1
	} else if h.version, h.parents, err = openV2(mounts, self); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	h.sweep()
	if err := h.try(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	return h, nil
}

// String is the version, v1 or v2.
func (h *Host) String() string { return h.version.String() }

// Has reports whether the host has the controller.
func (h *Host) Has(c Controller) bool { return h.parents[c] != "" }

// try makes a group as for a guest and removes it.
func (h *Host) try() error {
	g, err := h.New(Limits{Memory: 64 << 20, Processes: 8, Cores: 1})
	if errors.Is(err, os.ErrPermission) || errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w; run the worker as root, or in a group of its own, "+
			"for example with systemd-run --user --scope -p Delegate=yes", err)
	}
	if err != nil {
		return err
	}
	return g.Remove()
}

// dirs are the distinct parent directories.
func (h *Host) dirs() []string {
	var all []string
	for _, dir := range h.parents {
		if dir != "" && !slices.Contains(all, dir) {
			all = append(all, dir)
		}
	}
	return all
}

// mounts are the directories of the worker's own group in each hierarchy.
type mounts struct {
	v1 map[Controller]string
	// v2 is our own group in the unified hierarchy, v2Root the top of it.
	v2, v2Root string
}

func readMounts(mountinfo, groups string) (mounts, error) {
	own, err := readOwn(groups)
	if err != nil {
		return mounts{}, err
	}
	data, err := os.ReadFile(mountinfo)
	if err != nil {
		return mounts{}, err
	}
	m := mounts{v1: map[Controller]string{}}
	for line := range strings.Lines(string(data)) {
		m.take(line, own)
	}
	if len(m.v1) == 0 && m.v2 == "" {
		return mounts{}, errors.New("no control group file system is mounted below /sys/fs/cgroup")
	}
	return m, nil
}

// take reads one line of mountinfo: six fields, optional ones, a dash, then
// type, source and options.
func (m *mounts) take(line string, own map[string]string) {
	left, right, ok := strings.Cut(line, " - ")
	before, after := strings.Fields(left), strings.Fields(right)
	if !ok || len(before) < 5 || len(after) < 3 {
		return
	}
	root, point := unescape(before[3]), unescape(before[4])
	switch after[0] {
	case "cgroup2":
		if dir := below(point, root, own[""]); dir != "" && m.v2 == "" {
			m.v2, m.v2Root = dir, point
		}
	case "cgroup":
		for option := range strings.SplitSeq(after[2], ",") {
			c := Controller(option)
			known := c == Memory || c == Processes || c == CPU || c == Accounting
			if dir := below(point, root, own[option]); known && dir != "" && m.v1[c] == "" {
				m.v1[c] = dir
			}
		}
	}
}

// readOwn maps each version 1 controller, and "" for version 2, to the path of
// our group.
func readOwn(path string) (map[string]string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	own := map[string]string{}
	for line := range strings.Lines(string(data)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		for controller := range strings.SplitSeq(parts[1], ",") {
			own[controller] = parts[2]
		}
	}
	return own, nil
}

// below is where the group called path is seen when the subtree root of its
// hierarchy is mounted at point; empty when it lies outside.
func below(point, root, path string) string {
	if path == "" {
		return ""
	}
	rel, err := filepath.Rel(root, path)
	if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return ""
	}
	return filepath.Join(point, rel)
}

// unescape undoes the octal escapes of mountinfo.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}
