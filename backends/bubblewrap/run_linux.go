package bubblewrap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"airlock/backends"
	"airlock/backends/internal/cgroup"
	"airlock/backends/internal/guestproc"
	"airlock/backends/internal/hostids"
	"airlock/backends/internal/interpreter"
	"airlock/backends/internal/rootfs"
	"airlock/job"
	"airlock/runner-image/guest"
)

// ownProcesses are bwrap's in a guest's group: the one that watches and the
// first of the pid namespace.
const ownProcesses = 2

// sandbox is one guest that runs.
type sandbox struct {
	*ready
	task backends.Task
	// inspect looks at the live guest; the main process's pid is its
	// argument. Only a probe has one.
	inspect func(pid int)
	pipes   pipes
	// first is the first process of the guest's pid namespace: with it dies
	// everything. main is the guest's own; each may be nil.
	first, main *guestproc.Main
	disks       guestproc.Disks
	// stderr is how the guest's standard error begins; it is bwrap's own until
	// the guest has spoken.
	stderr  guestproc.Head
	spokeUp bool
}

// run runs one guest to its end.
func (r *ready) run(ctx context.Context, task backends.Task, inspect func(pid int)) (backends.Outcome, error) {
	s := &sandbox{ready: r, task: task, inspect: inspect}
	attr := syscall.SysProcAttr{}
	if r.ids != nil {
		id, back, err := r.ids.Take()
		if err != nil {
			return backends.Outcome{}, err
		}
		defer back()
		attr.Credential = hostids.Credential(id)
	}
	group, err := r.fence.NewGroup(task.Limits)
	if err != nil {
		return backends.Outcome{}, err
	}
	outcome, err := s.runIn(ctx, group, attr)
	s.close() // what the file systems hold is counted as the group's until then
	if group != nil {
		err = errors.Join(err, group.Remove())
	}
	return outcome, err
}

func (s *sandbox) runIn(ctx context.Context, group *cgroup.Group, attr syscall.SysProcAttr) (backends.Outcome, error) {
	if err := s.pipes.open(); err != nil {
		return backends.Outcome{}, err
	}
	task := s.task
	task.Stderr = io.MultiWriter(&s.stderr, task.Stderr)
	g := guestproc.Guest{
		Task:  task,
		Group: group,
		Command: guestproc.Command{
			Path: s.bwrap, Dir: "/", Attr: attr, Files: s.pipes.guest(),
			Args:   s.command(),
			Bounds: guestproc.NewBounds(task.Limits, group != nil),
			Awake:  s.pipes.awake,
		},
		Started: s.started, Spoke: s.spoke, Kill: s.kill,
	}
	ending, err := g.Run(ctx)
	s.pipes.closeGuest()
	return s.outcome(ending, err)
}

// started hands bwrap its arguments, which it has been waiting for: until then
// it has started nothing, so that nothing is ever without its bounds.
func (s *sandbox) started(int) error {
	s.pipes.closeGuest()
	if err := s.pipes.send(s.arguments()[len(firstArgument):], s.filter); err != nil {
		return err
	}
	pid, err := s.pipes.firstPID()
	if err != nil {
		return err
	}
	s.first = guestproc.OpenMain(pid)
	return nil
}

// arguments are bwrap's options for this guest, each ended by a NUL.
func (s *sandbox) arguments() []byte {
	size := strconv.FormatInt(int64(s.task.Limits.Disk), 10)
	args := []byte(firstArgument)
	add := func(words ...string) {
		for _, word := range words {
			args = append(append(args, word...), 0)
		}
	}
	add("--json-status-fd", strconv.Itoa(statusFD), "--seccomp", strconv.Itoa(filterFD))
	add(s.layout...)
	for _, dir := range rootfs.Writable() {
		add("--perms", "0700", "--size", size, "--tmpfs", dir)
	}
	add("--remount-ro", "/", "--chdir", "/workspace")
	return args
}

// command is bwrap's command line: the program cannot come by the descriptor.
func (s *sandbox) command() []string {
	args := append([]string{"bwrap", "--args", strconv.Itoa(argsFD), "--", s.python.Path}, interpreter.Flags()...)
	return append(args, rootfs.Inside+"/"+guest.Main)
}

// spoke looks at the guest before anything of the job is in it.
func (s *sandbox) spoke(pid int) error {
	s.spokeUp = true
	s.main = guestproc.OpenMain(pid)
	s.disks.Open(pid, rootfs.Writable())
	if s.inspect != nil {
		s.inspect(pid)
	}
	return nil
}

// kill kills the guest's pid namespace and waits until it is gone. bwrap's own
// first process dies by its parent's death signal too; that is not relied on.
func (s *sandbox) kill(ctx context.Context) error {
	if s.first == nil {
		return nil
	}
	s.first.Kill()
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(time.Minute)
	}
	if !s.first.Wait(deadline) {
		return errors.New("the guest's pid namespace does not die")
	}
	return nil
}

// outcome puts together what bwrap, the kernel and the group report.
func (s *sandbox) outcome(ending guestproc.Ending, err error) (backends.Outcome, error) {
	code, reported := s.pipes.exitCode()
	if err != nil {
		return backends.Outcome{}, s.explain(err)
	}
	status, known := s.main.Status()
	switch {
	case known:
	case reported:
		status, known = guess(code), true
	case ending.Stopped == nil && !ending.CPUReached && ending.Usage.OOMKills == 0:
		return backends.Outcome{}, s.explain(fmt.Errorf("bwrap ended before the guest did: %v", ending.State))
	}
	out := ending.Outcome(s.task.Limits, status, known, ownProcesses)
	out.DiskFull = s.disks.Full()
	return out, nil
}

// guess reads bwrap's exit status, in which signals are 128 and up: see the
// package's comment.
func guess(code int) syscall.WaitStatus {
	const lastSignal = 31
	if code > 128 && code <= 128+lastSignal {
		return syscall.WaitStatus(code - 128)
	}
	return syscall.WaitStatus(code << 8)
}

// explain adds what bwrap complained of, and what to do about it. Once the
// guest has spoken, its standard error is its own and nothing for our logs.
func (s *sandbox) explain(err error) error {
	said := complaint(s.stderr.String())
	if said == "" || s.spokeUp {
		return fmt.Errorf("run guest: %w", err)
	}
	return fmt.Errorf("run guest: %w: %s%s", err, job.Printable(said, 300), hint(said, os.ReadFile))
}

// complaint is bwrap's line among what was written, or the last one.
func complaint(written string) string {
	last := ""
	for line := range strings.Lines(written) {
		if last = strings.TrimSpace(line); strings.HasPrefix(last, "bwrap: ") {
			break
		}
	}
	return last
}

func (s *sandbox) close() {
	s.pipes.close()
	s.first.Close()
	s.main.Close()
	s.disks.Close()
}
