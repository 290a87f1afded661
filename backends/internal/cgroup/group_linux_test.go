package cgroup_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"airlock/backends/internal/cgroup"
	"airlock/backends/internal/owner"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func open(t *testing.T) *cgroup.Host {
	t.Helper()
	h, err := cgroup.Open()
	if err != nil {
		t.Skip(err)
	}
	return h
}

func newGroup(t *testing.T, h *cgroup.Host, l cgroup.Limits) *cgroup.Group {
	t.Helper()
	g, err := h.New(l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := errors.Join(g.Kill(ctx), g.Remove(), g.Remove()); err != nil {
			t.Errorf("end group: %v", err)
		}
		for _, dir := range g.Dirs() {
			if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s is still there", dir)
			}
		}
	})
	return g
}

// shell starts a script inside the group.
func shell(t *testing.T, g *cgroup.Group, script string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", script)
	done := make(chan error, 1)
	var enter func()
	enter = func() {
		runtime.LockOSThread() // and never unlocked: the thread ends here
		if unix.Gettid() == os.Getpid() {
			go enter() // on another thread, since this one is held
			<-t.Context().Done()
			runtime.UnlockOSThread()
			return
		}
		done <- g.Enter(&syscall.SysProcAttr{Setsid: true}, func(attr *syscall.SysProcAttr) error {
			cmd.SysProcAttr = attr
			return cmd.Start()
		})
	}
	go enter()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return cmd
}

func members(t *testing.T, g *cgroup.Group) string {
	t.Helper()
	all := ""
	for _, dir := range g.Dirs() {
		data, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil {
			t.Fatal(err)
		}
		all += string(data)
	}
	return all
}

// hosts are this host's own kind and, where it is mounted, version 2 without
// controllers, which shows how processes are born, killed and counted there.
func hosts(t *testing.T) map[string]*cgroup.Host {
	all := map[string]*cgroup.Host{"own": open(t)}
	const unified = "/sys/fs/cgroup/unified"
	if all["own"].String() == "v1" {
		if _, err := os.Stat(unified + "/cgroup.procs"); err == nil {
			all["v2"] = cgroup.HostV2(unified)
		}
	}
	return all
}

func TestBornInsideAndKilled(t *testing.T) {
	for name, h := range hosts(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGroup(t, h, cgroup.Limits{Memory: 64 << 20, Processes: 16, Cores: 1})
			cmd := shell(t, g, "trap '' TERM INT HUP; (setsid sleep 600 &) ; while :; do sleep 600; done")
			pid := strconv.Itoa(cmd.Process.Pid)
			if got := members(t, g); !strings.Contains(got, pid) {
				t.Errorf("got members %q, want %s among them", got, pid)
			}
			if got := members(t, g); strings.Contains("\n"+got, "\n"+strconv.Itoa(os.Getpid())+"\n") {
				t.Errorf("got members %q, want this process not among them", got)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := g.Kill(ctx); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err == nil || cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
				t.Errorf("got end %v, want SIGKILL", cmd.ProcessState)
			}
			if got := members(t, g); got != "" {
				t.Errorf("got members %q after the kill, want none", got)
			}
		})
	}
}

func TestWaitCPU(t *testing.T) {
	for name, h := range hosts(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !h.Has(cgroup.Accounting) {
				t.Skip("no counter of processor time")
			}
			g := newGroup(t, h, cgroup.Limits{Cores: 1})
			shell(t, g, "while :; do :; done & while :; do :; done")
			const limit = 200 * time.Millisecond
			ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
			defer cancel()
			if err := g.WaitCPU(ctx, limit); err != nil {
				t.Fatal(err)
			}
			usage, err := g.Usage()
			if err != nil || usage.CPU < limit {
				t.Errorf("got %v used when the limit was reported, error %v, want at least %v", usage.CPU, err, limit)
			}
		})
	}
}

// TestWaitCPUSleeps: a group that does nothing reaches nothing, and the wait
// ends with its context.
func TestWaitCPUSleeps(t *testing.T) {
	t.Parallel()
	g := newGroup(t, open(t), cgroup.Limits{})
	ctx, cancel := context.WithCancelCause(t.Context())
	want := errors.New("enough")
	cancel(want)
	if err := g.WaitCPU(ctx, time.Hour); !errors.Is(err, want) {
		t.Errorf("got %v, want the context's cause", err)
	}
}

func TestProcessLimit(t *testing.T) {
	t.Parallel()
	h := open(t)
	if !h.Has(cgroup.Processes) {
		t.Skip("no pids controller")
	}
	g := newGroup(t, h, cgroup.Limits{Processes: 3})
	cmd := shell(t, g, "sleep 600 & sleep 600 & sleep 600 & sleep 600 & wait")
	_ = cmd.Wait() // the shell gives up at the fork that fails
	usage, err := g.Usage()
	if err != nil || usage.ProcessesFull == 0 {
		t.Errorf("got %+v, error %v, want a refused process", usage, err)
	}
}

func TestOOM(t *testing.T) {
	t.Parallel()
	h := open(t)
	if !h.Has(cgroup.Memory) {
		t.Skip("no memory controller")
	}
	g := newGroup(t, h, cgroup.Limits{Memory: 8 << 20})
	cmd := shell(t, g, "x=aaaaaaaaaaaaaaaa; while :; do x=$x$x; done")
	err := cmd.Wait()
	usage, err2 := g.Usage()
	if err == nil || err2 != nil || usage.OOMKills != 1 {
		t.Errorf("got end %v and %+v, error %v, want one kill for memory", err, usage, err2)
	}
	if usage.PeakMemory < 4<<20 || usage.PeakMemory > 8<<20 {
		t.Errorf("got a peak of %d bytes, want nearly the limit of 8 MiB and no more", usage.PeakMemory)
	}
}

func TestSweep(t *testing.T) {
	t.Parallel()
	h := open(t)
	g := newGroup(t, h, cgroup.Limits{})
	self, err := owner.This()
	if err != nil {
		t.Fatal(err)
	}
	dead := exec.Command("/bin/true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	own := g.Dirs()[0]
	parts := strings.Split(filepath.Base(own), "-")
	parts[2] = strconv.Itoa(dead.Process.Pid)
	left, foreign := filepath.Join(filepath.Dir(own), strings.Join(parts, "-")), filepath.Join(filepath.Dir(own), "airlock-else-"+strconv.Itoa(os.Getpid()))
	for _, dir := range []string{left, foreign} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.Remove(dir) })
	}
	if !self.Left(filepath.Base(left)) {
		t.Fatalf("%s is not a dead worker's", left)
	}
	member := exec.Command("/bin/sleep", "600")
	if err := member.Start(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(left, "cgroup.procs"), []byte(strconv.Itoa(member.Process.Pid)), 0); err != nil {
		t.Fatal(err)
	}
	go member.Wait()
	h.Sweep()
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s: a dead worker's group is still there", left)
	}
	for _, dir := range []string{own, foreign} {
		if _, err := os.Stat(dir); err != nil {
			t.Errorf("%s: %v, want it left alone", dir, err)
		}
	}
}

// TestV2Files reads and writes the files of version 2 where none is mounted
// with controllers.
func TestV2Files(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"cgroup.controllers": "cpuset cpu io memory pids\n", "cgroup.subtree_control": "",
		"cpu.stat": "usage_usec 1500\nuser_usec 1\n", "memory.events": "low 0\noom 3\noom_kill 2\n",
		"memory.peak": "4096\n", "pids.events": "max 5\n", "pids.peak": "7\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := cgroup.Delegate(dir, "leaf")
	want := []cgroup.Controller{cgroup.Memory, cgroup.Processes, cgroup.CPU}
	if err != nil || cmp.Diff(want, got) != "" {
		t.Errorf("got controllers %v, error %v, want %v", got, err, want)
	}
	if data, _ := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control")); string(data) != "+memory +pids +cpu" {
		t.Errorf("got %q enabled, want memory, pids and cpu", data)
	}
	usage, err := cgroup.UsageOf(cgroup.HostV2(dir, want...), dir)
	counted := cgroup.Usage{CPU: 1500 * time.Microsecond, PeakMemory: 4096, PeakProcesses: 7, OOMKills: 2, ProcessesFull: 5}
	if err != nil || usage != counted {
		t.Errorf("got %+v, error %v, want %+v", usage, err, counted)
	}
	for _, name := range []string{"memory.peak", "pids.events", "pids.peak"} { // older kernels
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	counted.PeakMemory, counted.PeakProcesses, counted.ProcessesFull = 0, 0, 0
	if usage, err := cgroup.UsageOf(cgroup.HostV2(dir, want...), dir); err != nil || usage != counted {
		t.Errorf("without newer files: got %+v, error %v, want %+v", usage, err, counted)
	}
}
