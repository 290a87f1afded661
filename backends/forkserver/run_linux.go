package forkserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"airlock/backends"
	"airlock/backends/internal/cgroup"
	"airlock/backends/internal/guestproc"
	"airlock/backends/internal/rootfs"
	"airlock/job"
)

// bytesPerFile is how much of limits.disk there is for each file.
const bytesPerFile = 4 << 10

// errNotForked is wrapped when no guest came to be; another slot may do.
var errNotForked = errors.New("no guest was forked")

// tries is how many slots are tried for a guest before it is our failure. A
// slot can have died while it waited, with its template.
const tries = 3

// run runs one guest to its end.
func (r *ready) run(ctx context.Context, task backends.Task) (backends.Outcome, error) {
	var errs []error
	// A slot that has waited can have died with others, so it is not counted.
	for left := tries; left > 0; {
		s, err := r.slots.take(ctx, kindOf(task))
		switch {
		case err != nil && ctx.Err() != nil:
			return backends.Outcome{Cause: backends.Killed, Signal: "SIGKILL"}, nil
		case errors.Is(err, errNotForked):
			errs, left = append(errs, err), left-1
			continue
		case err != nil:
			return backends.Outcome{}, errors.Join(append(errs, err)...)
		}
		if s.guests == 0 {
			left--
		}
		g := &forked{ready: r, slot: s, limits: task.Limits, input: len(task.Stdin) > 0}
		out, err := g.run(ctx, task)
		err = errors.Join(err, r.slots.give(s, err == nil && g.sound(ctx, out)))
		if !errors.Is(err, errNotForked) {
			return out, err
		}
		errs = append(errs, err)
	}
	return backends.Outcome{}, errors.Join(errs...)
}

// forked is one guest in a slot. It is also the process that guestproc sees.
type forked struct {
	*ready
	slot   *slot
	limits job.Limits
	// input says that its standard input is not empty.
	input bool
	// bound is that of processor time of a guest whose job came before it spoke.
	bound *guestproc.Bounds
	visit *cgroup.Group
	// main is the guest, once it has spoken.
	main    *guestproc.Main
	pid     int
	stderr  guestproc.Head
	spokeUp bool
	disks   guestproc.Disks

	// exited is closed when end or lost is set.
	exited chan struct{}
	end    *ended
	lost   error
	ending guestproc.Ending

	// limiting guards the slot's limits while the guest runs, and over, which
	// is set when they are lifted for its end.
	limiting sync.Mutex
	over     bool
}

func (g *forked) run(ctx context.Context, task backends.Task) (backends.Outcome, error) {
	if err := g.slot.limit(task.Limits, g.config.Cores); err != nil {
		return backends.Outcome{}, fmt.Errorf("%w: %w", errNotForked, err)
	}
	if g.slot.group != nil {
		visit, err := g.slot.group.Visit(g.slot.pid)
		if err != nil {
			return backends.Outcome{}, fmt.Errorf("%w: %w", errNotForked, err)
		}
		g.visit = visit
		defer visit.Leave()
	}
	defer func() {
		g.main.Close()
		g.disks.Close() // what the file systems hold is the group's until then
	}()
	g.slot.guests++
	task.Stderr = io.MultiWriter(&g.stderr, task.Stderr)
	guest := guestproc.Guest{
		Task: task, Group: g.visit, Start: g.start, Limit: g.limit,
		Started: func(int) error { return nil },
		Spoke:   g.spoke,
		Kill:    func(context.Context) error { return nil },
	}
	var err error
	g.ending, err = guest.Run(ctx)
	g.slot.lost = g.orphaned()
	if err != nil {
		return backends.Outcome{}, g.explain(err)
	}
	return g.outcome()
}

// start has the slot fork the guest.
func (g *forked) start(files []*os.File) (guestproc.Process, error) {
	if err := g.slot.control.send(order{Guest: g.order()}, files...); err != nil {
		return nil, fmt.Errorf("%w: %w", errNotForked, err)
	}
	a, _, err := g.slot.control.receive(g.config.startTime)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errNotForked, err)
	case a.Failed != nil:
		return nil, fmt.Errorf("%w: %s", errNotForked, job.Printable(a.Failed.What, 100))
	case !a.Started:
		return nil, fmt.Errorf("%w: the slot says something else", errNotForked)
	}
	g.exited = make(chan struct{})
	go g.await()
	return g, nil
}

// order is how the guest is confined.
func (g *forked) order() *guestOrder {
	options := fmt.Sprintf("size=%d,nr_inodes=%d,mode=0700", g.limits.Disk, g.limits.Disk/bytesPerFile)
	if g.slot.user != 0 {
		options += fmt.Sprintf(",uid=%d,gid=%d", g.slot.user, g.slot.user)
	}
	bounds := guestproc.NewBounds(g.limits, g.slot.group != nil)
	return &guestOrder{
		User: g.slot.user, Writable: rootfs.Writable(), Options: options, Bounds: bounds.List(), Input: g.input,
	}
}

// await waits for the slot to tell of the guest's end.
func (g *forked) await() {
	defer close(g.exited)
	a, _, err := g.slot.control.receive(0)
	switch {
	case err != nil:
		g.lost = err
	case a.Ended == nil:
		g.lost = errors.New("the slot says something else")
	default:
		g.end = a.Ended
	}
}

// orphaned reports whether the slot has not told of its guest's end.
func (g *forked) orphaned() bool {
	if g.exited == nil {
		return false // there was none
	}
	select {
	case <-g.exited:
		return g.lost != nil
	default:
		return true
	}
}

// Pid implements guestproc.Process, as do the methods below.
func (g *forked) Pid() int { return 0 }

func (g *forked) Exited() <-chan struct{} { return g.exited }

// Kill has the slot kill the guest's pid namespace.
func (g *forked) Kill() {
	g.unthrottle()
	if err := g.slot.control.send(order{Kill: true}); err != nil {
		g.slot.process.Kill()
	}
}

// Ended knows nothing: outcome sees to the slot's report.
func (g *forked) Ended() (*os.ProcessState, error) { return nil, nil }

// unthrottle lifts the rate, since a group that has used up its share would do
// as it is told up to a tenth of a second later.
func (g *forked) unthrottle() {
	g.limiting.Lock()
	defer g.limiting.Unlock()
	g.over = true
	if g.slot.group != nil {
		g.slot.group.Unthrottle()
		g.slot.has = cgroup.Limits{}
	}
}

// limit sets a guest's limits when its job comes. What it was started for is
// not counted then.
func (g *forked) limit(l job.Limits) error {
	g.limiting.Lock()
	defer g.limiting.Unlock()
	switch {
	case g.over:
		return errors.New("the guest is being ended")
	case g.slot.group == nil && l.Memory > g.limits.Memory:
		return errors.New("the guest's address space is bounded and cannot grow")
	}
	g.limits = l
	if err := g.slot.limit(l, g.config.Cores); err != nil {
		return err
	}
	bounds := guestproc.NewBounds(l, true)
	if g.bound = &bounds; g.pid != 0 {
		if err := g.lowerCPU(); err != nil {
			return err
		}
	}
	if g.visit == nil {
		return nil
	}
	return g.visit.Restart()
}

// lowerCPU sets the bound that the job brought, once it is known which process
// is the guest: 0 would be ourselves.
func (g *forked) lowerCPU() error {
	if g.bound == nil {
		return nil
	}
	return g.bound.LowerCPU(g.pid, g.slot.account)
}

// spoke looks at the guest from outside before anything of the job is in it.
func (g *forked) spoke(pid int) error {
	g.spokeUp, g.pid = true, pid
	if g.main = guestproc.OpenMain(pid); g.main == nil {
		return errors.New("the guest ended, or cannot be watched")
	}
	g.disks.Open(pid, rootfs.Writable())
	return errors.Join(g.checkPosture(), g.lowerCPU())
}

// outcome puts together what the slot and the group report.
func (g *forked) outcome() (backends.Outcome, error) {
	var status syscall.WaitStatus
	known := g.end != nil
	if known {
		status = syscall.WaitStatus(g.end.Status)
	} else if g.ending.Stopped == nil && !g.ending.CPUReached && g.ending.Usage.OOMKills == 0 {
		return backends.Outcome{}, g.explain(fmt.Errorf("the guest's slot is lost: %w", g.lost))
	}
	if !g.spokeUp && g.ending.Stopped == nil && g.ending.Usage.OOMKills == 0 {
		return backends.Outcome{}, g.explain(errors.New("the guest ended before it was one"))
	}
	if g.ending.Usage.CPU == 0 && known {
		g.ending.Usage.CPU = time.Duration(g.end.CPU)
	}
	if g.ending.Usage.PeakMemory == 0 && known {
		g.ending.Usage.PeakMemory = g.end.Resident
	}
	out := g.ending.Outcome(g.limits, status, known, ownProcesses)
	out.DiskFull = g.disks.Full()
	return out, nil
}

// explain adds what was complained of. Once the guest has spoken, its standard
// error is its own and nothing for our logs.
func (g *forked) explain(err error) error {
	if said := g.stderr.String(); said != "" && !g.spokeUp {
		return fmt.Errorf("run guest: %w: %s", err, job.Printable(said, 300))
	}
	return fmt.Errorf("run guest: %w", err)
}

// sound reports whether the slot may be used for another guest.
func (g *forked) sound(ctx context.Context, out backends.Outcome) bool {
	breach := g.ending.Stopped != nil && ctx.Err() == nil // Serve failed
	if breach || g.lost != nil || out.OOMKills > 0 || out.Cause == backends.Violated || out.Cause == backends.Signalled {
		return false
	}
	// The kernel does not forget the peak of processes, so that a later
	// guest's would be this one's.
	return out.PeakProcesses <= 1
}
