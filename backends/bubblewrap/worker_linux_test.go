package bubblewrap_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"airlock/backends"
	"airlock/backends/bubblewrap"
	"airlock/job"
)

// asWorker names what this test binary does in place of its tests, so that a
// worker can be another user, or be killed.
const asWorker = "AIRLOCK_TEST_WORKER"

func TestMain(m *testing.M) {
	switch os.Getenv(asWorker) {
	case "":
		os.Exit(m.Run())
	case "unprivileged":
		exit(unprivileged())
	case "killed":
		exit(killed())
	case "next":
		exit(next())
	}
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// TestUnprivileged runs a worker as a user who may not use control groups.
func TestUnprivileged(t *testing.T) {
	t.Parallel()
	open(t)
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	cmd := worker(t, "unprivileged")
	// A user of this run only: what is looked for afterwards is ours.
	uid := uint32(1_800_000_000 + os.Getpid())
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("as uid %d: %v\n%s", uid, err, out)
	}
}

// worker is this binary where every user can reach it, with its own temporary
// directory.
func worker(t *testing.T, what string) *exec.Cmd {
	t.Helper()
	dir := publicDir(t)
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "worker")
	if err := writeProgram(path, self); err != nil {
		t.Fatal(err)
	}
	temp := filepath.Join(dir, "temp")
	if err := errors.Join(os.Mkdir(temp, 0o777), os.Chmod(temp, 0o777)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path)
	cmd.Dir = dir
	cmd.Env = []string{asWorker + "=" + what, "TMPDIR=" + temp, "PATH=/usr/bin:/bin", "AIRLOCK_REQUIRE=" + os.Getenv("AIRLOCK_REQUIRE")}
	return cmd
}

// unprivileged checks what such a worker offers, refuses, runs and leaves.
func unprivileged() error {
	ctx := context.Background()
	b := bubblewrap.New(bubblewrap.Config{})
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
		_, err := try(ctx, b, "return 1", job.Limits{}, []job.LimitName{name})
		if !errors.Is(err, backends.ErrUnenforceable) {
			return fmt.Errorf("got error %v for a job that needs %s, want ErrUnenforceable", err, name)
		}
	}
	got, err := try(ctx, b, `
import os, sys, subprocess
p = subprocess.Popen([sys.executable, "-c", "import os, time; os.setsid(); time.sleep(60)"], stdout=1)
open("/tmp/x", "wb").write(bytes(1000))
return [os.getuid(), 7]`, job.Limits{}, []job.LimitName{job.LimitDisk})
	if err != nil || got.value != "[1000,7]" || got.outcome.Cause != backends.Exited {
		return fmt.Errorf("got value %q, outcome %+v and error %v, want [1000,7]", got.value, got.outcome, err)
	}
	if _, err := try(ctx, b, "import ctypes\nctypes.CDLL(None).unshare(0x10000000)", job.Limits{}, nil); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	got, err = try(ctx, b, "import os\nif os.fork() == 0: os.setsid()\nwhile True: pass", job.Limits{}, nil)
	if err != nil || got.outcome.Cause != backends.Killed {
		return fmt.Errorf("got outcome %+v and error %v for a guest that ctx ended, want killed", got.outcome, err)
	}
	if err := b.Close(); err != nil {
		return err
	}
	return nothingLeft(os.Getuid())
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
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		info, err2 := os.Stat(filepath.Join("/proc", entry.Name()))
		status, err3 := os.ReadFile(filepath.Join("/proc", entry.Name(), "status"))
		if err != nil || err2 != nil || err3 != nil || strings.Contains(string(status), "State:\tZ") {
			continue
		}
		if int(info.Sys().(*syscall.Stat_t).Uid) == uid {
			found[pid] = string(status)[:strings.IndexByte(string(status), '\n')]
		}
	}
	return found
}

// killed runs a guest that goes on for ever and says when it does.
func killed() error {
	b := bubblewrap.New(bubblewrap.Config{})
	_, err := b.Run(context.Background(), backends.Task{
		Job: job.NewID(), Attempt: 1, Limits: job.DefaultLimits(), Stdout: os.Stdout, Stderr: os.Stderr,
		Serve: func(ctx context.Context, channel io.ReadWriteCloser) error {
			return (&seen{}).serve(channel, "import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(600)\nprint('up', flush=True)\ntime.sleep(600)")
		},
	})
	return err
}

// next starts and ends.
func next() error {
	b := bubblewrap.New(bubblewrap.Config{})
	_, err := b.Probe(context.Background())
	return errors.Join(err, b.Close())
}

// TestWorkerKilled: nothing outlives a worker that had no chance to clean up,
// but empty groups and files, and the next worker removes those.
func TestWorkerKilled(t *testing.T) {
	t.Parallel()
	open(t)
	cmd := worker(t, "killed")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Errorf("wait for the guest: %v", err)
	}
	if line != "up\n" {
		t.Errorf("got %q from the guest, want up", line)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait()
	mine := fmt.Sprintf("-%d-", cmd.Process.Pid)
	until(t, "the guest's processes are gone", func() bool { return len(groupMembers(mine)) == 0 })

	temp := strings.TrimPrefix(cmd.Env[1], "TMPDIR=")
	if left, _ := os.ReadDir(temp); len(left) == 0 {
		t.Error("the killed worker left no file: this test proves nothing")
	}
	after := worker(t, "next")
	after.Env = append(after.Env, "TMPDIR="+temp)
	if out, err := after.CombinedOutput(); err != nil {
		t.Errorf("the next worker: %v\n%s", err, out)
	}
	if left := groups(mine); len(left) > 0 {
		t.Errorf("got %v left by the dead worker, want nothing", left)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("got %v in the temporary directory, error %v, want nothing", left, err)
	}
}

// groups are the control groups with a name that has part in it.
func groups(part string) []string {
	var found []string
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && strings.Contains(entry.Name(), part) && strings.HasPrefix(entry.Name(), "airlock-") {
			found = append(found, path)
		}
		return nil
	})
	return found
}

func groupMembers(part string) []string {
	var all []string
	for _, dir := range groups(part) {
		data, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		all = append(all, strings.Fields(string(data))...)
	}
	return all
}

func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// writeProgram writes a file that is to be run. No other process may be born
// while it is open for that: the kernel refuses to run what somebody writes to.
func writeProgram(path string, data []byte) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(path, data, 0o755)
}
