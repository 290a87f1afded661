package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// v1 has a hierarchy of its own for each controller.
type v1 struct {
	// own are the groups that this process is in.
	own map[Controller]string
}

func (v1) String() string { return "v1" }

func (v1) limit(g *Group, l Limits) error {
	if g.dirs[Memory] != "" && l.Memory > 0 {
		if err := limitMemoryV1(g, strconv.FormatInt(l.Memory, 10)); err != nil {
			return err
		}
	}
	// One more while the thread that starts the process is inside.
	if err := limitProcessesV1(g, l.Processes, 1); err != nil {
		return err
	}
	return limitRateV1(g, l.Cores)
}

func (v1) relimit(g *Group, l Limits) error {
	if g.dirs[Memory] != "" && l.Memory > 0 {
		bytes := strconv.FormatInt(l.Memory, 10)
		// The limit may not be above that of memory and swap together, which
		// may not be below it: raising both begins with the one, lowering them
		// with the other.
		if limitMemoryV1(g, bytes) != nil {
			_ = g.set(Memory, "memory.memsw.limit_in_bytes", bytes)
			if err := limitMemoryV1(g, bytes); err != nil {
				return err
			}
		}
	}
	if err := limitProcessesV1(g, l.Processes, 0); err != nil {
		return err
	}
	return limitRateV1(g, l.Cores)
}

func limitRateV1(g *Group, cores float64) error {
	if g.dirs[CPU] == "" || cores <= 0 {
		return nil
	}
	quota := int64(cores * float64(period.Microseconds()))
	err := g.set(CPU, "cpu.cfs_quota_us", strconv.FormatInt(quota, 10))
	// A kernel without bandwidth control still counts the time.
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

func limitProcessesV1(g *Group, limit, more int) error {
	if g.dirs[Processes] == "" || limit <= 0 {
		return nil
	}
	return g.set(Processes, "pids.max", strconv.Itoa(limit+more))
}

// limitMemoryV1 sets the limit, then that of memory and swap together, which
// may not be below it. Without the second the swappiness keeps pages in.
func limitMemoryV1(g *Group, bytes string) error {
	if err := g.set(Memory, "memory.limit_in_bytes", bytes); err != nil {
		return err
	}
	err := g.set(Memory, "memory.memsw.limit_in_bytes", bytes)
	if errors.Is(err, os.ErrNotExist) {
		err = g.set(Memory, "memory.swappiness", "0")
	}
	return err
}

func (v1) cpu(g *Group) (int64, error) { return g.number(Accounting, "cpuacct.usage") }

func (v v1) usage(g *Group) (Usage, error) {
	var errs [5]error
	var cpu, peak, kills, full, procs int64
	if g.dirs[Accounting] != "" {
		cpu, errs[0] = v.cpu(g)
	}
	if g.dirs[Memory] != "" {
		peak, errs[1] = g.number(Memory, "memory.max_usage_in_bytes")
		kills, errs[2] = g.field(Memory, "memory.oom_control", "oom_kill")
	}
	if g.dirs[Processes] != "" {
		full, errs[3] = optional(g.field(Processes, "pids.events", "max"))
		procs, errs[4] = optional(g.number(Processes, "pids.peak"))
	}
	return Usage{time.Duration(cpu), peak, int(procs), int(kills), int(full)}, errors.Join(errs[:]...)
}

// enter moves only the calling thread, by writing 0: naming a thread by its
// number makes the kernel lock every process of the machine out of forking
// for a grace period of some ten milliseconds.
func (v v1) enter(g *Group, start Starter) (err error) {
	defer func() { err = errors.Join(err, v.leave(g), limitProcessesV1(g, g.limits.Processes, 0)) }()
	for _, dir := range g.distinct() {
		if err := write(filepath.Join(dir, "tasks"), "0"); err != nil {
			return fmt.Errorf("join control group: %w", err)
		}
	}
	return start(nil)
}

func (v v1) leave(g *Group) error {
	var errs []error
	for c := range g.dirs {
		if err := write(filepath.Join(v.own[c], "tasks"), "0"); err != nil {
			errs = append(errs, fmt.Errorf("leave control group: %w", err))
		}
	}
	return errors.Join(errs...)
}

// prepareKill lifts the rate, since a throttled process dies only when its
// next period begins.
func (v v1) prepareKill(g *Group) { v.unthrottle(g) }

func (v1) unthrottle(g *Group) {
	if g.dirs[CPU] != "" {
		_ = g.set(CPU, "cpu.cfs_quota_us", "-1")
	}
}
