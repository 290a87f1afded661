package forkserver_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"airlock/backends"
	"airlock/backends/forkserver"
	"airlock/job"

	"golang.org/x/sys/unix"
)

// asWorker names what this test binary does in place of its tests, so that a
// worker can be another user, or be killed.
const asWorker = "AIRLOCK_TEST_WORKER"

// actAsWorker does that, and then does not return.
func actAsWorker() {
	acts := map[string]func() error{"unprivileged": unprivileged, "forbidden": forbidden, "killed": killed, "next": next}
	act := acts[os.Getenv(asWorker)]
	if act == nil {
		return
	}
	if err := act(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// worker is this binary where every user can reach it, with its own temporary
// directory, which it returns.
func worker(t *testing.T, what string) (*exec.Cmd, string) {
	t.Helper()
	dir := publicDir(t)
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	path, temp := filepath.Join(dir, "worker"), filepath.Join(dir, "temp")
	if err := errors.Join(writeProgram(path, self), os.Mkdir(temp, 0o777), os.Chmod(temp, 0o777)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path)
	cmd.Dir = dir
	cmd.Env = []string{asWorker + "=" + what, "TMPDIR=" + temp, "PATH=/usr/bin:/bin"}
	return cmd, temp
}

// TestUnprivileged runs a worker as a user who may not use control groups.
func TestUnprivileged(t *testing.T) {
	t.Parallel()
	open(t, forkserver.Config{})
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	cmd, _ := worker(t, "unprivileged")
	// A user of this run only: what is looked for afterwards is ours.
	uid := uint32(1_810_000_000 + os.Getpid())
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("as uid %d: %v\n%s", uid, err, out)
	}
}

// unprivileged checks what such a worker offers, refuses, runs and leaves.
func unprivileged() error {
	ctx := context.Background()
	b := forkserver.New(forkserver.Config{Launcher: launcher})
	caps, err := b.Probe(ctx)
	if err != nil {
		return err
	}
	if got := fmt.Sprint(caps.Limits); got != "[disk]" {
		return fmt.Errorf("got limits %s, want [disk]: is this user allowed to use control groups?", got)
	}
	for _, name := range []job.LimitName{job.LimitMemory, job.LimitProcesses, job.LimitCPU} {
		if by := caps.Isolated.Limits[name]; !strings.HasPrefix(by, "not enforced: ") {
			return fmt.Errorf("got %q for %s, want it not enforced", by, name)
		}
		_, err := guest{code: "return 1", enforce: []job.LimitName{name}}.try(ctx, b)
		if !errors.Is(err, backends.ErrUnenforceable) {
			return fmt.Errorf("got error %v for a job that needs %s, want ErrUnenforceable", err, name)
		}
	}
	for _, tt := range []struct {
		code, value string
		cause       backends.Cause
	}{
		{"import os\nreturn [os.getuid(), os.getpid(), os.listdir('/workspace')]", `[1000,2,["main.py"]]`, backends.Exited},
		{"import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(60)\nopen('/tmp/x', 'wb').write(bytes(1000))\nreturn 7", "7", backends.Exited},
		{"import asyncio\nawait asyncio.sleep(0)\nreturn 8", "8", backends.Exited},
		{"import os, signal\nif os.fork() == 0: signal.pause()\nos.kill(-1, 9)\nos.abort()", "", backends.Signalled},
		{"import ctypes\nctypes.CDLL(None).ptrace(0, 0, 0, 0)", "", backends.Violated},
		{"import resource\nreturn resource.getrlimit(resource.RLIMIT_NOFILE)[1]", "256", backends.Exited},
		{"return 9", "9", backends.Exited},
	} {
		s, err := guest{code: tt.code, enforce: []job.LimitName{job.LimitDisk}}.try(ctx, b)
		if err != nil || s.value != tt.value || s.outcome.Cause != tt.cause {
			return fmt.Errorf("%q: got value %q, outcome %+v and error %v, want %s and %s; %s", tt.code, s.value, s.outcome, err, tt.value, tt.cause, s.fault)
		}
	}
	if err := unprivilegedEnds(ctx, b); err != nil {
		return err
	}
	if err := b.Close(); err != nil {
		return err
	}
	return nothingLeft(os.Getuid())
}

// unprivilegedEnds has guests end that no control group would find.
func unprivilegedEnds(ctx context.Context, b *forkserver.Backend) error {
	const crowd = "import os, time\nfor _ in range(3):\n    if os.fork() == 0:\n        os.setsid()\n        while True: time.sleep(1)\nprint('up')\nwhile True: time.sleep(1)"
	brief, cancel := context.WithCancel(ctx)
	g := guest{code: crowd, said: func(string) { cancel() }}
	s, err := g.try(brief, b)
	if err != nil || s.outcome.Cause != backends.Killed {
		return fmt.Errorf("got outcome %+v and error %v for a guest that ctx ended, want killed", s.outcome, err)
	}
	// Nobody is left to tell who the guest's processes are.
	g.said = func(string) {
		for _, launcher := range b.Launchers() {
			for _, template := range childrenOf(launcher) {
				for _, slot := range childrenOf(template) {
					_ = syscall.Kill(slot, syscall.SIGKILL)
				}
			}
		}
	}
	if s, err := g.try(ctx, b); err == nil || !strings.Contains(err.Error(), "slot is lost") {
		return fmt.Errorf("got outcome %+v and error %v for a guest whose slot died, want one that says so", s.outcome, err)
	}
	for pid := range processesOf(os.Getuid()) {
		if numbers := strings.Fields(statusOf(pid)["NSpid"]); len(numbers) > 2 {
			return fmt.Errorf("process %d is left of a guest whose slot died", pid)
		}
	}
	if s, err := (guest{code: "return 10"}).try(ctx, b); err != nil || s.value != "10" {
		return fmt.Errorf("got %q, error %v after a slot died, want 10", s.value, err)
	}
	task := b.Parks(backends.Task{Limits: job.DefaultLimits()})
	more := job.Limits{Memory: 2 * task.Limits.Memory}.WithDefaults()
	if s, err := late(b, guest{code: "return 1"}, more).try(ctx, b); err == nil && s.value == "1" {
		return fmt.Errorf("got %+v for a parked guest that is to have more memory than it can, want it ended", s)
	}
	return nil
}

// nothingLeft looks for other processes of the user and for files.
func nothingLeft(uid int) error {
	left, err := os.ReadDir(os.TempDir())
	if err != nil || len(left) > 0 {
		return fmt.Errorf("got %v in the temporary directory, error %v, want nothing", left, err)
	}
	for pid, name := range processesOf(uid) {
		if pid != os.Getpid() {
			return fmt.Errorf("process %d (%s) is still there", pid, name)
		}
	}
	return nil
}

func processesOf(uid int) map[int]string {
	found := map[int]string{}
	statuses, _ := filepath.Glob("/proc/[0-9]*/status")
	for _, path := range statuses {
		var pid int
		_, _ = fmt.Sscanf(path, "/proc/%d/", &pid)
		status := statusOf(pid)
		if ids := strings.Fields(status["Uid"]); len(ids) > 0 && ids[0] == fmt.Sprint(uid) && alive(pid) {
			found[pid] = status["Name"]
		}
	}
	return found
}

// TestNamespacesForbidden: the worker's own user namespace allows none below.
func TestNamespacesForbidden(t *testing.T) {
	t.Parallel()
	open(t, forkserver.Config{})
	cmd, _ := worker(t, "forbidden")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 1000, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 1000, HostID: os.Getegid(), Size: 1}},
		AmbientCaps: []uintptr{unix.CAP_SYS_RESOURCE},
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func forbidden() error {
	if err := os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0); err != nil {
		return err
	}
	b := forkserver.New(forkserver.Config{Launcher: launcher})
	defer b.Close()
	_, err := b.Probe(context.Background())
	if !errors.Is(err, backends.ErrUnavailable) || !strings.Contains(err.Error(), "sysctl -w user.max_user_namespaces=") {
		return fmt.Errorf("got error %v, want one that says how to mend it", err)
	}
	return nil
}

// killed runs a guest that goes on for ever and says when it does.
func killed() error {
	b := forkserver.New(forkserver.Config{Launcher: launcher})
	g := guest{code: "import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(600)\n" + forever}
	g.said = func(string) { fmt.Println("up") }
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	_, err := g.try(ctx, b)
	return err
}

// next starts and ends.
func next() error {
	b := forkserver.New(forkserver.Config{Launcher: launcher})
	_, err := b.Probe(context.Background())
	return errors.Join(err, b.Close())
}

// TestWorkerKilled: nothing outlives a worker that had no chance to clean up,
// but empty groups and files, and the next worker removes those, and no others.
func TestWorkerKilled(t *testing.T) {
	t.Parallel()
	b, _ := open(t, forkserver.Config{})
	ours := groupsOf(t, treeOf(t, b).slots()[0])
	cmd, temp := worker(t, "killed")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "up\n" {
		t.Errorf("got %q from the guest, error %v, want up", line, err)
	}
	// Launcher, template, slot, the guest's first process, itself and its child.
	all := descendants(cmd.Process.Pid)
	if len(all) != 6 {
		t.Errorf("got processes %v below the worker, want 6", all)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait()
	for _, pid := range all {
		until(t, fmt.Sprintf("process %d is gone", pid), func() bool { return !alive(pid) })
	}
	if left, _ := os.ReadDir(temp); len(left) == 0 {
		t.Error("the killed worker left no file: this test proves nothing")
	}
	after, _ := worker(t, "next")
	after.Env = append(after.Env, "TMPDIR="+temp)
	if out, err := after.CombinedOutput(); err != nil {
		t.Errorf("the next worker: %v\n%s", err, out)
	}
	if left := groups(fmt.Sprintf("-%d-", cmd.Process.Pid)); len(left) > 0 {
		t.Errorf("got %v left by the dead worker, want nothing", left)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("got %v in the temporary directory, error %v, want nothing", left, err)
	}
	for _, dir := range ours {
		if _, err := os.Stat(dir); err != nil {
			t.Errorf("the next worker removed a living one's: %v", err)
		}
	}
	works(t, b)
}

// writeProgram writes a file that is to be run. No other process may be born
// while it is open for that: the kernel refuses to run what somebody writes to.
func writeProgram(path string, data []byte) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(path, data, 0o755)
}
