//go:build unix

package guestproc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"airlock/backends"
	"airlock/backends/internal/cgroup"
)

// Guest is one guest to run.
type Guest struct {
	Task backends.Task
	Command
	// Group bounds the guest; nil where there are no control groups.
	Group *cgroup.Group
	// Started is called once the process exists, with its bounds set and
	// before anything of the job is near it. An error ends the guest.
	Started func(pid int) error
	// Spoke is called with the pid of the guest's main process, or 0 if
	// unknown, when its first bytes have arrived and before they are read.
	Spoke func(pid int)
	// Kill kills what killing the process and the group leaves alive, and
	// waits until that is dead or ctx ends.
	Kill func(ctx context.Context) error
}

// Command is what to start.
type Command struct {
	// Path is the program, Args its arguments from the program's name on.
	Path string
	Args []string
	// Env is the whole environment.
	Env []string
	Dir string
	// Files become the descriptors from 4 on.
	Files  []*os.File
	Attr   syscall.SysProcAttr
	Bounds Bounds
	// Awake, if not nil, returns when the program itself runs; the bounds are
	// set then. The kernel tells of an exec before it is through, and at its
	// end puts back the limit on the stack that it began with: what is set in
	// between is lost, seen on a busy machine. It is given the time it has.
	Awake func(pid int, limit time.Duration) error
}

// Ending is how a guest ended, as far as its process and group tell.
type Ending struct {
	// State is the end of the process that was started.
	State *os.ProcessState
	// Stopped is why we killed it; nil if we did not.
	Stopped error
	// CPUReached is set when we killed it because its group had used up its
	// processor time.
	CPUReached bool
	// Usage is what the group counted; zero without one.
	Usage cgroup.Usage
}

// Run runs the guest to its end. When it returns nothing of the guest is left
// but the group, which is empty. An error means that it did not start, or that
// its end is unknown.
func (g *Guest) Run(ctx context.Context) (Ending, error) {
	s, err := newStreams(g.Task.Stdin)
	if err != nil {
		return Ending{}, err
	}
	ch, guestEnd, err := newChannel(g.Spoke)
	if err != nil {
		s.closeGuest()
		s.closeHost()
		return Ending{}, err
	}
	p, err := g.start(append(append(s.guest[:3:3], guestEnd), g.Files...))
	s.closeGuest()
	closeAll(guestEnd)
	if err != nil {
		s.closeHost()
		return Ending{}, errors.Join(fmt.Errorf("start guest: %w", err), ch.Close())
	}
	s.pump(g.Task.Stdin, g.Task.Stdout, g.Task.Stderr)
	return g.attend(ctx, p, s, ch)
}

// attend runs the conversation of a started guest and sees it to its end.
func (g *Guest) attend(ctx context.Context, p *process, s *streams, ch *channel) (Ending, error) {
	var ending Ending
	err := g.Started(p.pid)
	if err == nil {
		t := NewTalk(ctx, g.Task, ch)
		ending, err = g.watch(ctx, p, ch, t.Served)
		err = errors.Join(err, g.kill(ctx, p))
		t.End(ctx)
	} else {
		err = errors.Join(fmt.Errorf("start guest: %w", err), g.kill(ctx, p))
	}
	s.finish()
	err = errors.Join(err, ch.Close())
	if p.ended() {
		ending.State = p.state
		err = errors.Join(err, p.err)
	}
	if g.Group != nil {
		usage, usageErr := g.Group.Usage()
		ending.Usage, err = usage, errors.Join(err, usageErr)
	}
	return ending, err
}

// watch waits until the guest ends or must be ended, and says which.
func (g *Guest) watch(ctx context.Context, p *process, ch *channel, served <-chan error) (Ending, error) {
	counting, stop := context.WithCancel(ctx)
	defer stop()
	var cpu chan error
	if g.Group != nil {
		cpu = make(chan error, 1)
		go func() { cpu <- g.Group.WaitCPU(counting, g.Task.Limits.CPU.Std()) }()
		defer func() { stop(); <-cpu }()
	}
	for {
		select {
		case <-p.exited:
			return Ending{}, nil
		case <-ctx.Done():
			return Ending{Stopped: context.Cause(ctx)}, nil
		case err := <-served:
			served = nil
			if err == nil || p.gone(ch) {
				continue
			}
			return Ending{Stopped: err}, nil
		case err := <-cpu:
			cpu <- nil // for the deferred wait
			if ctx.Err() != nil {
				return Ending{Stopped: context.Cause(ctx)}, nil
			}
			return Ending{CPUReached: err == nil}, err
		}
	}
}

// killTime bounds how long the dead may take to be gone. Only a process that
// hangs inside the kernel takes longer than milliseconds.
const killTime = 10 * time.Second

// kill ends everything of the guest and returns when it is gone.
func (g *Guest) kill(ctx context.Context, p *process) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killTime)
	defer cancel()
	var errs []error
	if !p.ended() {
		_ = p.os.Kill()
	}
	errs = append(errs, g.Kill(ctx))
	if g.Group != nil {
		errs = append(errs, g.Group.Kill(ctx))
	}
	select {
	case <-p.exited:
	case <-ctx.Done():
		errs = append(errs, errors.New("the guest's process does not die"))
	}
	return errors.Join(errs...)
}
