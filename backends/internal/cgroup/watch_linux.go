package cgroup

import (
	"fmt"
	"path/filepath"
	"strings"
)

// Watch opens the group that somebody else made around a process, for its
// counters only. The group must be named after name, since the number of a
// process in another pid namespace means another process here. cores is the
// rate that the group was given, or zero.
func Watch(pid int, name string, cores float64) (*Group, error) {
	m, err := readMounts("/proc/self/mountinfo", fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return nil, fmt.Errorf("find control group: %w", err)
	}
	h := &Host{version: v1{}, parents: m.v1}
	if m.v1[Memory] == "" && m.v1[Processes] == "" {
		h.version, h.parents = v2{}, map[Controller]string{Memory: m.v2, Processes: m.v2, CPU: m.v2, Accounting: m.v2}
	}
	for _, c := range []Controller{Memory, Processes, Accounting} {
		if !strings.Contains(filepath.Base(h.parents[c]), name) {
			return nil, fmt.Errorf("%w: %s of process %d is %q, which is not named after it", ErrUnusable, c, pid, h.parents[c])
		}
	}
	return &Group{host: h, dirs: h.parents, limits: Limits{Cores: cores}}, nil
}
