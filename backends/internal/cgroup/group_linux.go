package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Group is the control group of one guest.
type Group struct {
	host *Host
	// dirs has the group's directory for each controller; several may share
	// one.
	dirs   map[Controller]string
	limits Limits
	// counters are nil until the first visit, and closed by Remove.
	counters *counters
	// visit is set on a group that was there before this guest.
	visit *visit
}

// New makes an empty group with the limits set. An error leaves nothing
// behind.
func (h *Host) New(l Limits) (*Group, error) {
	name := h.owner.Name(fmt.Sprintf("%s.%d", h.token, h.made.Add(1)))
	g := &Group{host: h, dirs: map[Controller]string{}, limits: l}
	for c, parent := range h.parents {
		if parent == "" {
			continue
		}
		dir := filepath.Join(parent, name)
		if err := os.Mkdir(dir, 0o755); err != nil && !slices.Contains(g.distinct(), dir) {
			return nil, errors.Join(fmt.Errorf("make control group: %w", err), g.Remove())
		}
		g.dirs[c] = dir
	}
	if err := h.version.limit(g, l); err != nil {
		return nil, errors.Join(fmt.Errorf("limit control group: %w", err), g.Remove())
	}
	return g, nil
}

// Starter starts a process with the attributes it is given.
type Starter func(attr *syscall.SysProcAttr) error

// Enter calls start so that the process it starts is born in the group. The
// calling goroutine must be locked to a thread that is not the process's
// first. On return the thread is where it was.
func (g *Group) Enter(attr *syscall.SysProcAttr, start Starter) error {
	return g.host.version.enter(g, func(a *syscall.SysProcAttr) error {
		if a == nil {
			return start(attr)
		}
		merged := *attr
		merged.UseCgroupFD, merged.CgroupFD = a.UseCgroupFD, a.CgroupFD
		return start(&merged)
	})
}

// Usage is what the kernel counted so far.
func (g *Group) Usage() (Usage, error) {
	usage, err := g.host.version.usage(g)
	if err != nil {
		return usage, fmt.Errorf("read control group: %w", err)
	}
	return g.sinceVisit(usage), nil
}

// WaitCPU blocks until the group has used that much processor time, and then
// returns nil, or until ctx ends. It sleeps until the earliest moment at which
// the limit could have been reached.
func (g *Group) WaitCPU(ctx context.Context, limit time.Duration) error {
	timer := time.NewTimer(g.earliest(limit))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
		}
		used, err := g.host.version.cpu(g)
		if err != nil {
			return fmt.Errorf("read processor time: %w", err)
		}
		left := limit - (time.Duration(used) - g.cpuBefore())
		if left <= 0 {
			return nil
		}
		timer.Reset(g.earliest(left))
	}
}

const (
	// period is that of the rate limit, the kernel's default.
	period = 100 * time.Millisecond
	// shortest is the least the watch sleeps, and so how far past its limit
	// one busy processor gets.
	shortest = 2 * time.Millisecond
)

// earliest is how soon a group could use so much time: all processors at once,
// but in the long run no more than its rate and two periods' worth on top.
func (g *Group) earliest(left time.Duration) time.Duration {
	soon := left / time.Duration(runtime.NumCPU())
	if g.limits.Cores > 0 && g.host.Has(CPU) {
		burst := time.Duration(2 * g.limits.Cores * float64(period))
		soon = max(soon, time.Duration(float64(left-burst)/g.limits.Cores))
	}
	return max(soon, shortest)
}

// Kill kills everything in the group and returns when nothing runs in it any
// more, or when ctx ends.
func (g *Group) Kill(ctx context.Context) error {
	dirs, spared := g.distinct(), g.spared()
	if g.visit != nil && len(dirs) > 0 { // who was born in one is in all
		dirs = dirs[:1]
	}
	if alone(dirs, spared) {
		return nil
	}
	g.host.version.prepareKill(g)
	for _, dir := range dirs {
		if err := killAll(ctx, dir, spared); err != nil {
			return fmt.Errorf("kill control group: %w", err)
		}
	}
	return nil
}

// alone reports whether the groups are seen to hold nothing but what is
// spared.
func alone(dirs []string, spared int) bool {
	for _, dir := range dirs {
		pids, err := members(dir, spared)
		if err != nil || len(pids) > 0 {
			return false
		}
	}
	return true
}

// removeTime bounds how long a dead group may be busy.
const removeTime = 5 * time.Second

// Remove removes the empty group. It may be called twice.
func (g *Group) Remove() error {
	ctx, cancel := context.WithTimeout(context.Background(), removeTime)
	defer cancel()
	if g.counters != nil {
		g.counters.close()
	}
	var errs []error
	for _, dir := range g.distinct() {
		if err := rmdir(ctx, dir); err != nil {
			errs = append(errs, fmt.Errorf("remove control group: %w", err))
		}
	}
	return errors.Join(errs...)
}

func (g *Group) distinct() []string {
	var all []string
	for _, dir := range g.dirs {
		if !slices.Contains(all, dir) {
			all = append(all, dir)
		}
	}
	return all
}

// rmdir retries while the kernel still counts the dead.
func rmdir(ctx context.Context, dir string) error {
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		err := os.Remove(dir)
		if err == nil || errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if !errors.Is(err, syscall.EBUSY) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// set writes a control file of the group.
func (g *Group) set(c Controller, file, value string) error {
	return write(filepath.Join(g.dirs[c], file), value)
}

// write writes a control file that exists. os.WriteFile would ask to create
// it, which here fails as forbidden instead of as absent.
func write(path, value string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// read reads a control file of the group.
func (g *Group) read(c Controller, file string) ([]byte, error) {
	path := filepath.Join(g.dirs[c], file)
	if g.counters != nil {
		return g.counters.read(path)
	}
	return os.ReadFile(path)
}

// number reads a control file that holds one.
func (g *Group) number(c Controller, file string) (int64, error) {
	data, err := g.read(c, file)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
}

// field reads the number after a word in a control file of such lines.
func (g *Group) field(c Controller, file, word string) (int64, error) {
	data, err := g.read(c, file)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), " "); name == word {
			return strconv.ParseInt(value, 10, 64)
		}
	}
	return 0, fmt.Errorf("%s has no %s", file, word)
}

// optional turns the absence of a newer kernel's file into zero.
func optional(n int64, err error) (int64, error) {
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	return n, err
}
