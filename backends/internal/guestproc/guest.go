package guestproc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"airlock/backends"
	"airlock/backends/internal/cgroup"
	"airlock/job"
)

// Guest is one guest to run.
type Guest struct {
	Task backends.Task
	Command
	// Start starts the guest with these descriptors, from 0 on, which are
	// closed here when it returns; nil means that Command is started. Only
	// Linux has guests that are started otherwise.
	Start func(files []*os.File) (Process, error)
	// Group bounds the guest; nil where there are no control groups.
	Group *cgroup.Group
	// Limit, if not nil, sets the kernel's limits on the guest while it
	// waits for its job. What it used before does not count then.
	Limit func(job.Limits) error
	// Started is called once the process exists, with its bounds set and
	// before anything of the job is near it. An error ends the guest.
	Started func(pid int) error
	// Spoke is called with the pid of the guest's main process, or 0 if
	// unknown, when its first bytes have arrived and before they are read. An
	// error ends the conversation.
	Spoke func(pid int) error
	// Kill kills what killing the process and the group leaves alive, and
	// waits until that is dead or ctx ends.
	Kill func(ctx context.Context) error

	// spent has the limit of processor time that Limit set.
	spent chan time.Duration
}

// Process is the process that was started for a guest.
type Process interface {
	// Pid is its number, or zero where that is not known yet.
	Pid() int
	// Exited is closed when it has ended and been waited for.
	Exited() <-chan struct{}
	// Kill kills it, if it has not ended.
	Kill()
	// Ended says how it ended, nil where only others know. It is called after
	// Exited is closed. The error means that nobody knows.
	Ended() (*os.ProcessState, error)
}

// Command is what to start.
type Command struct {
	// Path is the program, Args its arguments from the program's name on.
	Path string
	Args []string
	// Env is the whole environment.
	Env []string
	Dir string
	// Files become the descriptors from 4 on, or on Windows the handles of
	// those numbers: see HandlesVariable.
	Files  []*os.File
	Attr   syscall.SysProcAttr
	Bounds Bounds
	// Awake, if not nil, returns when the program itself runs; the bounds are
	// set then. The kernel tells of an exec before it is through, and at its
	// end puts back the limit on the stack that it began with: what is set in
	// between is lost, seen on a busy machine. It is given the time it has.
	Awake func(pid int, limit time.Duration) error
	// Becomes, if not nil, are the ids that the program takes on by itself,
	// which it may have done when the bounds are set.
	Becomes *User
}

// Ending is how a guest ended, as far as its process and group tell.
type Ending struct {
	// State is the end of the process that was started, as Ended says.
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
	p, err := g.begin(s.guest, guestEnd)
	s.closeGuest()
	_ = guestEnd.Close()
	if err != nil {
		s.closeHost()
		return Ending{}, errors.Join(fmt.Errorf("start guest: %w", err), ch.Close())
	}
	s.pump(g.Task.Stdin, g.Task.Stdout, g.Task.Stderr)
	return g.attend(ctx, p, s, ch)
}

// limiting is the channel of a guest whose limits can still be set.
type limiting struct {
	*channel
	guest   *Guest
	process Process
}

// counter counts what a guest uses, as a control group does.
type counter interface {
	Usage() (cgroup.Usage, error)
	WaitCPU(ctx context.Context, limit time.Duration) error
}

// counter is what counts the guest: its group, or its process where that is
// more than one; nil if nothing does.
func (g *Guest) counter(p Process) counter {
	if g.Group != nil {
		return g.Group
	}
	c, _ := p.(counter)
	return c
}

// Limit implements backends.Limiter.
func (l limiting) Limit(limits job.Limits) error {
	if err := l.guest.Limit(limits); err != nil {
		return err
	}
	if p, ok := l.process.(interface{ Restart() error }); ok {
		if err := p.Restart(); err != nil {
			return err
		}
	}
	l.guest.spent <- limits.CPU.Std()
	return nil
}

// channel is what the conversation is given.
func (g *Guest) channel(ch *channel, p Process) io.ReadWriteCloser {
	if g.Limit == nil {
		return ch
	}
	g.spent = make(chan time.Duration, 1)
	return limiting{ch, g, p}
}

// attend runs the conversation of a started guest and sees it to its end.
func (g *Guest) attend(ctx context.Context, p Process, s *streams, ch *channel) (Ending, error) {
	var ending Ending
	err := g.Started(p.Pid())
	if err == nil {
		t := NewTalk(ctx, g.Task, g.channel(ch, p))
		ending, err = g.watch(ctx, p, ch, t.Served)
		err = errors.Join(err, g.kill(ctx, p))
		t.End(ctx)
	} else {
		err = errors.Join(fmt.Errorf("start guest: %w", err), g.kill(ctx, p))
	}
	s.finish()
	err = errors.Join(err, ch.Close())
	if ended(p) {
		var unknown error
		ending.State, unknown = p.Ended()
		err = errors.Join(err, unknown, ch.wrong)
	}
	if c := g.counter(p); c != nil {
		usage, usageErr := c.Usage()
		ending.Usage, err = usage, errors.Join(err, usageErr)
	}
	return ending, errors.Join(err, release(p))
}

// watch waits until the guest ends or must be ended, and says which.
func (g *Guest) watch(ctx context.Context, p Process, ch *channel, served <-chan error) (Ending, error) {
	cpu := g.watchCPU(ctx, p, g.Task.Limits.CPU.Std())
	defer func() { cpu.end() }()
	for {
		select {
		case <-p.Exited():
			return Ending{}, nil
		case <-ctx.Done():
			return Ending{Stopped: context.Cause(ctx)}, nil
		case err := <-served:
			served = nil
			if err == nil || gone(p, ch) {
				continue
			}
			return Ending{Stopped: err}, nil
		case limit := <-g.spent:
			cpu.end()
			cpu = g.watchCPU(ctx, p, limit)
		case <-cpu.over:
			if ctx.Err() != nil {
				return Ending{Stopped: context.Cause(ctx)}, nil
			}
			return Ending{CPUReached: cpu.err == nil}, cpu.err
		}
	}
}

// cpuWatch waits for the group to use up its processor time.
type cpuWatch struct {
	stop context.CancelFunc
	// over is closed when err is set; nil where there is no group.
	over chan struct{}
	err  error
}

func (g *Guest) watchCPU(ctx context.Context, p Process, limit time.Duration) *cpuWatch {
	ctx, stop := context.WithCancel(ctx)
	w := &cpuWatch{stop: stop}
	if c := g.counter(p); c != nil {
		w.over = make(chan struct{})
		go func() {
			defer close(w.over)
			w.err = c.WaitCPU(ctx, limit)
		}()
	}
	return w
}

func (w *cpuWatch) end() {
	w.stop()
	if w.over != nil {
		<-w.over
	}
}

// killTime bounds how long the dead may take to be gone. Only a process that
// hangs inside the kernel takes longer than milliseconds.
const killTime = 10 * time.Second

// kill ends everything of the guest and returns when it is gone.
func (g *Guest) kill(ctx context.Context, p Process) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killTime)
	defer cancel()
	var errs []error
	if !ended(p) {
		p.Kill()
	}
	errs = append(errs, g.Kill(ctx))
	if g.Group != nil {
		errs = append(errs, g.Group.Kill(ctx))
	}
	select {
	case <-p.Exited():
	case <-ctx.Done():
		errs = append(errs, errors.New("the guest's process does not die"))
	}
	return errors.Join(errs...)
}
