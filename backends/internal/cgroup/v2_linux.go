package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"airlock/backends/internal/owner"
)

// v2 has one hierarchy for all controllers.
type v2 struct{}

func (v2) String() string { return "v2" }

// openV2 finds a group below which ours can be made: our own, or as root the
// top one.
func openV2(m mounts, self owner.Owner) (version, map[Controller]string, error) {
	if m.v2 == "" {
		return nil, nil, errors.New("no memory or pids controller is mounted")
	}
	leaf := self.Name("host")
	own := m.v2
	if filepath.Base(own) == leaf {
		own = filepath.Dir(own)
	}
	enabled, err := delegate(own, leaf)
	if err != nil && os.Geteuid() == 0 && m.v2Root != own {
		own = m.v2Root
		var err2 error
		if enabled, err2 = delegate(own, leaf); err2 != nil {
			return nil, nil, errors.Join(err, err2)
		}
	} else if err != nil {
		return nil, nil, err
	}
	parents := map[Controller]string{Accounting: own}
	for _, c := range enabled {
		parents[c] = own
	}
	return v2{}, parents, nil
}

// delegate hands dir's controllers to its children and returns which.
func delegate(dir, leaf string) ([]Controller, error) {
	available, err := words(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return nil, err
	}
	var want []Controller
	var enable []string
	for _, c := range []Controller{Memory, Processes, CPU} {
		if slices.Contains(available, string(c)) {
			want, enable = append(want, c), append(enable, "+"+string(c))
		}
	}
	if len(want) == 0 {
		return nil, fmt.Errorf("%s offers none of the controllers memory, pids and cpu; "+
			"start the worker in a delegated group, for example with systemd-run --scope -p Delegate=yes", dir)
	}
	if err := handDown(dir, leaf, strings.Join(enable, " ")); err != nil {
		return nil, fmt.Errorf("hand controllers down from %s: %w; start the worker in a delegated group of its own, "+
			"for example with systemd-run --scope -p Delegate=yes", dir, err)
	}
	return want, nil
}

// handDown enables the controllers for dir's children. A group other than the
// top one may not hold processes then, so we step into a leaf if need be; any
// other process in dir makes it fail, and we step back.
func handDown(dir, leaf, enable string) error {
	control := filepath.Join(dir, "cgroup.subtree_control")
	err := write(control, enable)
	if !errors.Is(err, syscall.EBUSY) {
		return err
	}
	inner := filepath.Join(dir, leaf)
	if err := os.Mkdir(inner, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	if err := write(filepath.Join(inner, "cgroup.procs"), "0"); err != nil {
		return errors.Join(err, os.Remove(inner))
	}
	if err := write(control, enable); err != nil {
		back := write(filepath.Join(dir, "cgroup.procs"), "0")
		return errors.Join(err, back, os.Remove(inner))
	}
	return nil
}

func words(path string) ([]string, error) {
	data, err := os.ReadFile(path)
	return strings.Fields(string(data)), err
}

func (v2) limit(g *Group, l Limits) error {
	var errs []error
	if g.dirs[Memory] != "" && l.Memory > 0 {
		errs = append(errs, g.set(Memory, "memory.max", strconv.FormatInt(l.Memory, 10)), g.noSwap())
	}
	if g.dirs[Processes] != "" && l.Processes > 0 {
		errs = append(errs, g.set(Processes, "pids.max", strconv.Itoa(l.Processes)))
	}
	if g.dirs[CPU] != "" && l.Cores > 0 {
		quota := int64(l.Cores * float64(period.Microseconds()))
		errs = append(errs, g.set(CPU, "cpu.max", fmt.Sprintf("%d %d", quota, period.Microseconds())))
	}
	return errors.Join(errs...)
}

func (v v2) relimit(g *Group, l Limits) error { return v.limit(g, l) }

// noSwap keeps pages from being swapped out; a kernel without swap lacks the
// files.
func (g *Group) noSwap() error {
	for _, file := range []string{"memory.swap.max", "memory.zswap.max"} {
		if err := g.set(Memory, file, "0"); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (v2) cpu(g *Group) (int64, error) {
	usec, err := g.field(Accounting, "cpu.stat", "usage_usec")
	return usec * int64(time.Microsecond), err
}

func (v v2) usage(g *Group) (Usage, error) {
	var errs [5]error
	var cpu, peak, kills, full, procs int64
	cpu, errs[0] = v.cpu(g)
	if g.dirs[Memory] != "" {
		peak, errs[1] = g.peakMemoryV2()
		kills, errs[2] = g.field(Memory, "memory.events", "oom_kill")
	}
	if g.dirs[Processes] != "" {
		full, errs[3] = optional(g.field(Processes, "pids.events", "max"))
		procs, errs[4] = optional(g.number(Processes, "pids.peak"))
	}
	return Usage{time.Duration(cpu), peak, int(procs), int(kills), int(full)}, errors.Join(errs[:]...)
}

// enter has the kernel clone the process into the group.
func (v2) enter(g *Group, start Starter) error {
	dir, err := os.Open(g.dirs[Accounting])
	if err != nil {
		return fmt.Errorf("open control group: %w", err)
	}
	defer dir.Close()
	return start(&syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())})
}

// prepareKill kills all members at once, where the kernel has cgroup.kill, and
// lifts the rate for those that would wait for their next period.
func (v v2) prepareKill(g *Group) {
	v.unthrottle(g)
	if g.visit == nil { // it would take who is to be spared
		_ = g.set(Accounting, "cgroup.kill", "1")
	}
}

func (v2) unthrottle(g *Group) {
	if g.dirs[CPU] != "" {
		_ = g.set(CPU, "cpu.max", "max")
	}
}
