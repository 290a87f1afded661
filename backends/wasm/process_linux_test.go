package wasm_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"airlock/backends"
	"airlock/backends/internal/frame"
	"airlock/backends/internal/wasmguest"
	"airlock/backends/wasm"
	"airlock/job"
)

// TestTooLarge: a process that uses more than its guest may have in all is
// ended, with control groups and without.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	where := python(t)
	for name, noGroups := range map[string]bool{"control group": false, "resident size": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// 256 MiB for the guest, 128 for files; of all that 120 are left.
			b := wasm.New(wasm.Tight(wasm.Config{Helper: helper, Python: where, Log: zerologOf(t)}, -264<<20, noGroups))
			defer b.Close()
			got := runPython(t, b, "kept = [bytearray(b'x' * (1 << 20)) for _ in range(180)]\nwhile True: pass", job.Limits{})
			if got.outcome.Cause != backends.OutOfMemory || got.outcome.OOMKills == 0 {
				t.Errorf("got %+v, want out of memory", got.outcome)
			}
		})
	}
}

// TestHelperKilled: a guest's process that somebody else ends is a guest that
// was ended by a signal, and the next is well. It ends all there are, so it
// does not run beside other tests.
func TestHelperKilled(t *testing.T) {
	b := newBackend(t, join(send(helloAt, len(sayHello)), []byte{0x03, 0x40, 0x0c, 0, 0x0b, 0x41, 0}))
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP} {
		failure := errors.New("enough")
		got := runGuest(t, b, job.Limits{}, func(_ context.Context, channel io.ReadWriteCloser) error {
			var hello frame.Request
			if err := frame.Read(channel, &hello); err != nil {
				return err
			}
			for _, pid := range children(t) {
				_ = syscall.Kill(pid, signal)
			}
			if signal == syscall.SIGSTOP {
				return failure // as when its wall clock has run out
			}
			return nil
		})
		want := map[syscall.Signal]backends.Cause{syscall.SIGKILL: backends.Signalled, syscall.SIGSTOP: backends.Killed}[signal]
		if got.outcome.Cause != want {
			t.Errorf("%s: got %+v, want %s", signal, got.outcome, want)
		}
	}
}

// children are the guests' processes that this one has.
func children(t testing.TB) []int {
	t.Helper()
	parent := os.Getpid()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		_, rest, _ := strings.Cut(string(stat), ") ")
		fields := strings.Fields(rest)
		if bytes.HasSuffix(line, []byte(wasmguest.Name+"\x00")) && len(fields) > 1 && fields[1] == strconv.Itoa(parent) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// TestConfined: what is not confined is found to be so.
func TestConfined(t *testing.T) {
	t.Parallel()
	if err := wasm.CheckConfined(os.Getpid(), true); err == nil || !strings.Contains(err.Error(), "Seccomp") {
		t.Errorf("got %v of this very process, want what it lacks", err)
	}
	if err := wasm.CheckConfined(1<<30, true); err == nil {
		t.Error("got no error of no process, want one")
	}
}

// asWorker makes this test binary a worker of another user.
const asWorker = "AIRLOCK_TEST_WASM_WORKER"

// TestUnprivileged runs a worker as a user without any right: the walls are
// the same, and all limits hold.
func TestUnprivileged(t *testing.T) {
	t.Parallel()
	where, err := filepath.Abs(python(t))
	if err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user; as any other, all tests are told so")
	}
	home, err := os.MkdirTemp("", "airlock-wasm-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(home)
	uid := 1_800_000_000 + os.Getpid()
	program := filepath.Join(home, "worker")
	self, err := os.ReadFile("/proc/self/exe")
	err = errors.Join(err, os.Chmod(home, 0o755), writeProgram(program, self), os.Mkdir(home+"/home", 0o700), os.Chown(home+"/home", uid, uid))
	for _, name := range []string{"python.wasm", "stdlib.zip", "manifest.json"} {
		data, readErr := os.ReadFile(filepath.Join(where, name))
		err = errors.Join(err, readErr, os.WriteFile(filepath.Join(home, name), data, 0o644))
	}
	if err != nil {
		t.Fatal(err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	worker, err := os.StartProcess(program, []string{program}, &os.ProcAttr{
		Dir: "/", Env: []string{asWorker + "=" + home, "HOME=" + home + "/home", "TMPDIR=" + home + "/home"}, Files: []*os.File{nil, write, write},
		Sys: &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}},
	})
	_ = write.Close()
	if err != nil {
		t.Fatal(err)
	}
	said, _ := io.ReadAll(read)
	if state, err := worker.Wait(); err != nil || !state.Success() {
		t.Errorf("as uid %d: %v, %v\n%s", uid, state, err, said)
	}
}

// actAsWorker does what TestUnprivileged wants, in a process that it started.
func actAsWorker() {
	home := os.Getenv(asWorker)
	if home == "" {
		return
	}
	if err := unprivileged(home); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func unprivileged(home string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 12*time.Minute)
	defer cancel()
	b := wasm.New(wasm.Config{Helper: helper, Python: home})
	defer b.Close()
	can, err := b.Probe(ctx)
	if err != nil {
		return err
	}
	if len(can.Limits) != len(job.KernelLimits()) {
		return fmt.Errorf("got limits %v, want all: %v", can.Limits, can.Isolated.Limits)
	}
	limits := job.DefaultLimits()
	limits.CPU = job.Duration(time.Second)
	out, err := b.Run(ctx, backends.Task{
		Job: job.NewID(), Limits: limits, Enforce: can.Limits, Stdout: io.Discard, Stderr: io.Discard,
		Serve: func(_ context.Context, channel io.ReadWriteCloser) error {
			return (&ran{}).serve(channel, "while True: pass")
		},
	})
	if err != nil || out.Cause != backends.OutOfCPU {
		return fmt.Errorf("got %+v, %w, want out of cpu", out, err)
	}
	return nil
}

// writeProgram writes a file that is to be run. No other process may be born
// while it is open for that: the kernel refuses to run what somebody writes to.
func writeProgram(path string, data []byte) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(path, data, 0o755)
}
