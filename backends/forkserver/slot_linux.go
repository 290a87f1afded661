package forkserver

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"airlock/backends/internal/cgroup"
	"airlock/backends/internal/guestproc"
	"airlock/backends/internal/hostids"
	"airlock/backends/internal/rootfs"
	"airlock/job"
)

// ownProcesses are those in a guest's group that are not the guest's: the slot
// and the first of the pid namespace.
const ownProcesses = 2

// slot is a place where guests run, one after another. One goroutine at a time
// uses it.
type slot struct {
	template *template
	kind     kind
	control  *control
	born     time.Time
	// guests counts those that ran here.
	guests int

	process    *guestproc.Main
	pid        int
	namespaces map[string]string
	// home is what the kernel says of the groups that the slot was put into.
	home []byte
	// vigil is kept from when a guest may come.
	vigil *vigil
	// lost is set when the slot is gone that would have ended its guest.
	lost bool
	// group is nil where there are no control groups; has is what it was
	// given last.
	group *cgroup.Group
	has   cgroup.Limits
	// user is the guests' inside, account the same on the host, both zero where
	// they are ours; back gives them back.
	user    int
	account *syscall.Credential
	back    func()
}

// newSlot forks a slot off the template and puts it into its groups.
func (r *ready) newSlot(t *template, k kind) (*slot, error) {
	s := &slot{template: t, kind: k, born: time.Now(), back: func() {}}
	if r.ids != nil {
		id, back, err := r.ids.Take()
		if err != nil {
			return nil, err
		}
		s.user, s.account, s.back = rootfs.InsideID+id-r.ids.First-1, hostids.Credential(id), back
	}
	if err := s.start(r); err != nil {
		return nil, errors.Join(fmt.Errorf("make slot: %w", err), s.end())
	}
	return s, nil
}

func (s *slot) start(r *ready) error {
	if err := s.fork(); err != nil {
		return err
	}
	hello, pid, err := s.control.receive(r.config.startTime)
	switch {
	case hello.Failed != nil:
		return errors.New(job.Printable(hello.Failed.What, 100))
	case err != nil:
		return fmt.Errorf("%w: %w", errBadTemplate, err)
	case !hello.Hello || pid == 0:
		return errors.New("it does not greet")
	}
	if s.pid, s.process = pid, guestproc.OpenMain(pid); s.process == nil {
		return errors.New("it cannot be watched: Linux 5.3 or later is needed")
	}
	if s.group, err = r.fence.NewGroup(job.DefaultLimits()); err != nil {
		return err
	}
	if s.group != nil {
		if err := s.group.Attach(pid); err != nil {
			return err
		}
		if s.home, err = groupsOf(pid); err != nil {
			return err
		}
	}
	if err := s.control.send(order{Enter: true}); err != nil {
		return err
	}
	ready, _, err := s.control.receive(r.config.startTime)
	if ready.Failed != nil {
		return errors.New(job.Printable(ready.Failed.What, 100))
	}
	if err != nil || !ready.Ready {
		return errors.Join(errors.New("it does not get ready"), err)
	}
	if err := s.look(); err != nil {
		return err
	}
	s.vigil, err = watch(pid, s.died)
	return err
}

// errBadTemplate is wrapped when no slot can be forked off a template any more.
var errBadTemplate = errors.New("the template is of no use")

// fork has the template fork the slot.
func (s *slot) fork() error {
	control, far, err := newControl()
	if err != nil {
		return err
	}
	s.control = control
	defer far.Close()
	s.template.mu.Lock()
	defer s.template.mu.Unlock()
	if err := s.template.control.send(order{Slot: true}, far); err != nil {
		return fmt.Errorf("%w: %w", errBadTemplate, err)
	}
	return nil
}

// limit gives the slot's group a guest's limits, if it has others.
func (s *slot) limit(l job.Limits, cores float64) error {
	want := cgroup.Limits{Memory: int64(l.Memory), Processes: l.Processes + ownProcesses, Cores: cores}
	if s.group == nil || want == s.has {
		return nil
	}
	s.has = cgroup.Limits{}
	if err := s.group.Limit(want); err != nil {
		return err
	}
	s.has = want
	return nil
}

const (
	// endTime bounds how long the dead may take.
	endTime = 10 * time.Second
	// leaveTime is how long a slot may take to end by itself.
	leaveTime = 2 * time.Second
)

// end ends the slot with whatever runs in it and leaves nothing. The user of
// one that does not die is nobody else's.
func (s *slot) end() error {
	var errs []error
	s.vigil.end()
	if s.control != nil {
		errs = append(errs, s.control.close()) // it exits then
	}
	if s.group == nil && (!s.process.Wait(time.Now().Add(leaveTime)) || s.lost) {
		// Killed, it cannot take the first process of a guest's namespace along,
		// which no group would show. What is left dies with the launcher.
		s.template.launcher.Kill()
		<-s.template.launcher.Exited()
	}
	s.process.Kill()
	if s.group != nil {
		ctx, cancel := context.WithTimeout(context.Background(), endTime)
		defer cancel()
		errs = append(errs, s.group.Kill(ctx))
	}
	if !s.process.Wait(time.Now().Add(endTime)) {
		errs = append(errs, errors.New("the slot does not die"))
	} else {
		s.back()
	}
	s.process.Close()
	if s.group != nil {
		errs = append(errs, s.group.Remove())
	}
	return errors.Join(errs...)
}
