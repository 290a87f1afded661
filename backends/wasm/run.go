package wasm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"airlock/backends"
	"airlock/backends/internal/cgroup"
	"airlock/backends/internal/guestproc"
	"airlock/backends/internal/wasmguest"
	"airlock/job"
)

// instance is one guest that runs.
type instance struct {
	*ready
	task   backends.Task
	ledger *ledger
	user   *guestproc.User
	// group is the guest's, and visit what it counts; nil without groups.
	group, visit *cgroup.Group
	pid          int
	// stderr is how the guest's standard error begins; it is its process's own
	// until the guest has spoken.
	stderr  guestproc.Head
	spokeUp bool
	watch   watch
}

// bytesPerFile is what a file system has for each of its files.
const bytesPerFile = 4096

// check refuses what cannot be held, before anything starts.
func (r *ready) check(task backends.Task) error {
	if least := job.Size(r.imageSize + spareMemory); task.Limits.Memory < least {
		return fmt.Errorf("%w: memory: an interpreter that has only started uses %s", backends.ErrUnenforceable, least)
	}
	return r.fence.Check(task)
}

// spareMemory is the least that an interpreter needs to read its job.
const spareMemory = 2 << 20

// run runs one guest to its end.
func (r *ready) run(ctx context.Context, task backends.Task) (_ backends.Outcome, err error) {
	g := &instance{ready: r, task: task}
	var back func()
	if g.user, back, err = r.users.take(); err != nil {
		return backends.Outcome{}, err
	}
	defer back()
	if g.ledger, err = newLedger(); err != nil {
		return backends.Outcome{}, err
	}
	defer g.ledger.close()
	if err := g.enclose(); err != nil {
		return backends.Outcome{}, err
	}
	out, err := g.runIn(ctx)
	return out, errors.Join(err, g.disclose())
}

func (g *instance) runIn(ctx context.Context) (backends.Outcome, error) {
	order, err := newOrder(g.order())
	if err != nil {
		return backends.Outcome{}, err
	}
	defer order.close()
	task := g.task
	task.Stderr = io.MultiWriter(&g.stderr, task.Stderr)
	guest := guestproc.Guest{
		Task: task, Group: g.visit, Limit: g.limit,
		Command: guestproc.Command{
			Path: g.config.Helper.path, Args: []string{Name, wasmguest.Name}, Env: []string{}, Dir: root(g.config.Helper.path), Attr: g.walls,
			Files:  []*os.File{order.file, g.hollow, g.stdlib, g.image, g.ledger.file, g.code},
			Bounds: g.bounds(), Becomes: g.user,
		},
		Started: func(pid int) error {
			g.pid = pid
			g.watch.begin(g)
			order.give()
			return nil
		},
		Spoke: g.spoke,
		Kill:  func(context.Context) error { return nil },
	}
	ending, err := guest.Run(ctx)
	g.watch.end()
	return g.outcome(ending, err)
}

func (g *instance) order() wasmguest.Order {
	l := g.task.Limits
	order := wasmguest.Order{
		Cache: g.cache.dir, Code: g.codeFile(), Memory: int64(l.Memory), Disk: int64(l.Disk), Files: max(int64(l.Disk)/bytesPerFile, 1),
		Image: g.imageSize, Parent: os.Getpid(),
	}
	order.User = uidOf(g.user)
	return order
}

// spoke looks at the guest's process before anything of the job is in it.
func (g *instance) spoke(int) error {
	g.spokeUp = true
	return checkConfined(g.pid, g.user != nil)
}

// limit sets what a job brings to a guest that stands ready. What its start
// has used is not counted then.
func (g *instance) limit(l job.Limits) error {
	if err := lowerCPU(g.pid, guestproc.NewBounds(l, true), g.user); err != nil {
		return err
	}
	g.task.Limits.CPU = l.CPU
	return restart(g.visit)
}

// outcome puts together what the process, the group and the ledger tell.
func (g *instance) outcome(ending guestproc.Ending, err error) (backends.Outcome, error) {
	if err != nil {
		return backends.Outcome{}, g.explain(err)
	}
	var status syscall.WaitStatus
	var known bool
	if ending.State != nil {
		status, known = ending.State.Sys().(syscall.WaitStatus)
	}
	if !g.spokeUp && ending.Stopped == nil && !g.watch.tripped() {
		return backends.Outcome{}, g.explain(fmt.Errorf("its process ended first: %v", ending.State))
	}
	out := ending.Outcome(g.task.Limits, status, known, 0)
	out.PeakProcesses = 1 // its threads are the runtime's
	out.DiskFull = g.ledger.DiskFull()
	if out.PeakMemory == 0 {
		out.PeakMemory = job.Size(g.ledger.Peak())
	}
	if g.watch.tripped() && out.Cause == backends.Signalled {
		out.Cause, out.OOMKills = backends.OutOfMemory, 1
	}
	return out, nil
}

// explain adds what was complained of. Once the guest has spoken, its standard
// error is its own and nothing for our logs.
func (g *instance) explain(err error) error {
	if said := g.stderr.String(); said != "" && !g.spokeUp {
		return fmt.Errorf("run guest: %w: %s", err, job.Printable(said, 300))
	}
	return fmt.Errorf("run guest: %w", err)
}
