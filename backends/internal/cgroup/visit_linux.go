package cgroup

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// visit is one guest's stay in a group that outlives it.
type visit struct {
	// spared is the process that lives there, and stays.
	spared int
	// mu guards before: a visit may begin anew while its time is watched.
	mu sync.Mutex
	// before is what the group had counted when the guest came.
	before Usage
	// peak is the descriptor by which a newer kernel of version 2 counts the
	// peak from the visit on; nil elsewhere.
	peak *os.File
}

// Attach moves a process into the group. It is for one that is to stay: the
// kernel may take ten milliseconds for it.
func (g *Group) Attach(pid int) error {
	for _, dir := range g.distinct() {
		if err := write(filepath.Join(dir, "cgroup.procs"), strconv.Itoa(pid)); err != nil {
			return fmt.Errorf("attach to control group: %w", err)
		}
	}
	return nil
}

// Visit is the group as one guest has it that was born of a process which stays
// in it. Its usage is counted from now on; Kill spares the process; Remove is
// not for it, but Leave is. One visit at a time.
//
// The kernel cannot reset the peak of processes: it is the highest of all
// visits. Before Linux 6.12 the same is true of the peak of memory on version
// 2, which is reported as zero unless it grew.
func (g *Group) Visit(spared int) (*Group, error) {
	if g.counters == nil {
		g.counters = &counters{open: map[string]*os.File{}}
	}
	v := &visit{spared: spared}
	guest := &Group{host: g.host, dirs: g.dirs, limits: g.limits, counters: g.counters, visit: v}
	before, err := g.host.version.usage(guest)
	if err != nil {
		return nil, fmt.Errorf("read control group: %w", err)
	}
	v.before = before
	return guest, guest.Restart()
}

// Leave ends a visit.
func (g *Group) Leave() {
	if g.visit.peak != nil {
		_ = g.visit.peak.Close()
	}
}

// Restart begins the visit's counts of time and memory anew.
func (g *Group) Restart() error {
	if err := g.resetPeak(); err != nil {
		return fmt.Errorf("reset control group: %w", err)
	}
	used, err := g.host.version.cpu(g)
	if err != nil {
		return fmt.Errorf("read processor time: %w", err)
	}
	g.visit.mu.Lock()
	defer g.visit.mu.Unlock()
	g.visit.before.CPU = time.Duration(used)
	return nil
}

// counters are control files that are kept open, since each guest of a group
// that is visited has all of them read.
type counters struct {
	mu   sync.Mutex
	open map[string]*os.File // by path, guarded by mu
}

// read reads a control file from its beginning.
func (c *counters) read(path string) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.open[path]
	if f == nil {
		opened, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		f, c.open[path] = opened, opened
	}
	text := make([]byte, maxControlFile)
	n, err := f.ReadAt(text, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return text[:n], err
}

// maxControlFile is beyond the longest that is read, cpu.stat of version 2.
const maxControlFile = 1 << 10

func (c *counters) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for path, f := range c.open {
		_ = f.Close()
		delete(c.open, path)
	}
}

// Limit sets the limits of a group that has some already. A field that is zero
// is left as it is.
func (g *Group) Limit(l Limits) error {
	if err := g.host.version.relimit(g, l); err != nil {
		return fmt.Errorf("limit control group: %w", err)
	}
	g.limits = l
	return nil
}

// Unthrottle lifts the rate until the next Limit: a group that has used up its
// share of a period would do nothing until the next.
func (g *Group) Unthrottle() { g.host.version.unthrottle(g) }

func (g *Group) cpuBefore() time.Duration {
	if g.visit == nil {
		return 0
	}
	return g.visit.start().CPU
}

func (v *visit) start() Usage {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.before
}

func (g *Group) spared() int {
	if g.visit == nil {
		return 0
	}
	return g.visit.spared
}

// sinceVisit takes off what was counted before the guest came.
func (g *Group) sinceVisit(u Usage) Usage {
	if g.visit == nil {
		return u
	}
	b := g.visit.start()
	u.CPU -= b.CPU
	u.OOMKills -= b.OOMKills
	u.ProcessesFull -= b.ProcessesFull
	if u.PeakMemory == b.PeakMemory && !g.host.version.resets(g) {
		u.PeakMemory = 0
	}
	return u
}

// resetPeak has the peak of memory begin at what is used now.
func (g *Group) resetPeak() error {
	if g.dirs[Memory] == "" {
		return nil
	}
	return g.host.version.resetPeak(g)
}

func (v1) resetPeak(g *Group) error { return g.set(Memory, "memory.max_usage_in_bytes", "0") }

func (v1) resets(*Group) bool { return true }

// resetPeak resets the peak for the descriptor that is written to, and the
// kernel lets only newer files be opened for that.
func (v2) resetPeak(g *Group) error {
	if g.visit.peak == nil {
		f, err := os.OpenFile(filepath.Join(g.dirs[Memory], "memory.peak"), os.O_RDWR, 0)
		if errors.Is(err, os.ErrPermission) || errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		g.visit.peak = f
	}
	if _, err := g.visit.peak.WriteString("reset"); err != nil {
		// As root an older kernel's file opens, and takes no writing.
		f := g.visit.peak
		g.visit.peak = nil
		return f.Close()
	}
	return nil
}

func (v2) resets(g *Group) bool { return g.visit.peak != nil }

// peakMemoryV2 reads the peak, by the descriptor that resets it if there is
// one.
func (g *Group) peakMemoryV2() (int64, error) {
	if g.visit == nil || g.visit.peak == nil {
		return optional(g.number(Memory, "memory.peak"))
	}
	text := make([]byte, 32)
	n, err := g.visit.peak.ReadAt(text, 0)
	if n == 0 {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(text[:n])), 10, 64)
}
