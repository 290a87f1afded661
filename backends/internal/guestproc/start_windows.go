package guestproc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/windows"
)

// HandlesVariable tells a process the handles that stand for the descriptors
// from 3 on, as decimal numbers with commas between.
const HandlesVariable = "AIRLOCK_HANDLES"

// held is a process inside a job object.
type held struct {
	process
	*jobObject
}

// Kill implements Process: it ends all that is in the object.
func (h *held) Kill() { h.jobObject.kill() }

// begin starts the guest, with the handles that it is to have and no others.
// It waits for its order, and so does nothing before the object holds it.
func (g *Guest) begin(streams [3]*os.File, end guestEnd) (Process, error) {
	if g.Start != nil {
		return nil, errors.New("only Linux has guests that are not started as processes")
	}
	object, err := newJobObject(g.Bounds)
	if err != nil {
		return nil, err
	}
	attr := g.Attr
	env, free, err := inherit(&attr, g.Env, append([]windows.Handle{windows.Handle(end)}, handles(g.Files)...))
	if err != nil {
		return nil, errors.Join(err, object.Close())
	}
	defer free()
	proc, err := os.StartProcess(g.Path, g.Args, &os.ProcAttr{Dir: g.Dir, Env: env, Files: streams[:], Sys: &attr})
	if err != nil {
		return nil, errors.Join(err, object.Close())
	}
	p := &held{process{os: proc, pid: proc.Pid, exited: make(chan struct{})}, object}
	if err := object.hold(proc); err != nil {
		_ = proc.Kill()
		p.wait()
		return nil, errors.Join(err, object.Close())
	}
	go p.wait()
	return p, nil
}

// RunHelper runs a command that is no guest, with further descriptors from 3
// on, inside the bounds. begun is called once it runs.
func RunHelper(cmd *exec.Cmd, files []*os.File, b Bounds, begun func() error) error {
	object, err := newJobObject(b)
	if err != nil {
		return err
	}
	defer object.Close()
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	env, free, err := inherit(cmd.SysProcAttr, cmd.Env, handles(files))
	if err != nil {
		return err
	}
	defer free()
	cmd.Env = env
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := object.hold(cmd.Process); err != nil {
		return errors.Join(err, cmd.Process.Kill(), cmd.Wait())
	}
	err = begun()
	return errors.Join(cmd.Wait(), err)
}

func handles(files []*os.File) []windows.Handle {
	list := make([]windows.Handle, len(files))
	for i, f := range files {
		list[i] = windows.Handle(f.Fd())
	}
	return list
}

// inherit gives the attributes and the environment of a process that gets
// copies of these handles; free closes ours once it has started.
func inherit(attr *syscall.SysProcAttr, env []string, list []windows.Handle) (_ []string, free func(), err error) {
	self := windows.CurrentProcess()
	free = func() {
		for _, h := range attr.AdditionalInheritedHandles {
			_ = windows.CloseHandle(windows.Handle(h))
		}
	}
	var numbers []string
	for _, h := range list {
		var heir windows.Handle
		if err := windows.DuplicateHandle(self, h, self, &heir, 0, true, windows.DUPLICATE_SAME_ACCESS); err != nil {
			free()
			return nil, nil, fmt.Errorf("pass on handle: %w", err)
		}
		attr.AdditionalInheritedHandles = append(attr.AdditionalInheritedHandles, syscall.Handle(heir))
		numbers = append(numbers, strconv.FormatUint(uint64(heir), 10))
	}
	// A console would need a process of its own.
	attr.CreationFlags |= windows.DETACHED_PROCESS
	env = append(append([]string{}, env...), HandlesVariable+"="+strings.Join(numbers, ","))
	if root := os.Getenv("SYSTEMROOT"); root != "" { // without it some of the system's libraries do not load
		env = append(env, "SYSTEMROOT="+root)
	}
	return env, free, nil
}
