package local_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"airlock/backends"
	"airlock/backends/internal/frame"
	"airlock/backends/local"
	"airlock/job"
)

// asWorker makes this test binary a worker of another user.
const asWorker = "AIRLOCK_TEST_WORKER"

func TestMain(m *testing.M) {
	if os.Getenv(asWorker) == "" {
		os.Exit(m.Run())
	}
	if err := unprivileged(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// TestUnprivileged runs a worker as a user who may not use control groups.
func TestUnprivileged(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	dir, err := os.MkdirTemp("", "airlock-local-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	self, err := os.ReadFile("/proc/self/exe")
	path, temp := filepath.Join(dir, "worker"), filepath.Join(dir, "temp")
	err = errors.Join(err, os.Chmod(dir, 0o755), writeProgram(path, self), os.Mkdir(temp, 0o777), os.Chmod(temp, 0o777))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path)
	cmd.Dir, cmd.Env = dir, []string{asWorker + "=1", "TMPDIR=" + temp, "PATH=/usr/bin:/bin"}
	// A user of this run only: what is looked for afterwards is ours.
	uid := uint32(1_800_000_000 + os.Getpid())
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("as uid %d: %v\n%s", uid, err, out)
	}
}

// unprivileged checks that no limit is offered, and that a tree dies without
// the help of a group.
func unprivileged() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	b := local.New(local.Config{AllowNoIsolation: true})
	caps, err := b.Probe(ctx)
	if err != nil {
		return err
	}
	if len(caps.Limits) > 0 {
		return fmt.Errorf("got limits %v, want none: is this user allowed to use control groups?", caps.Limits)
	}
	const tree = `
import os, subprocess, sys
for detached in (False, True):
    subprocess.Popen([sys.executable, "-c", "import os, time\nif os.fork() == 0: os.setsid(); time.sleep(600)\ntime.sleep(600)"], start_new_session=detached)
os.makedirs("a/b")
os.chmod("a", 0)
print("up", flush=True)
`
	var out bytes.Buffer
	outcome, err := run(ctx, b, tree, &out, nil)
	if err != nil || outcome.Cause != backends.Exited || out.String() != "up\n" {
		return fmt.Errorf("got %+v, stdout %q, error %v, want a guest that ended by itself", outcome, out.String(), err)
	}
	failure := errors.New("enough")
	outcome, err = run(ctx, b, tree+"\nwhile True: pass", writer(func([]byte) {}), failure)
	if err != nil || outcome.Cause != backends.Killed {
		return fmt.Errorf("got %+v, error %v, want a killed guest", outcome, err)
	}
	if err := b.Close(); err != nil {
		return err
	}
	return nothingLeft()
}

// TestOneProcess: the smallest limit leaves room for the guest itself.
func TestOneProcess(t *testing.T) {
	t.Parallel()
	b := local.New(local.Config{AllowNoIsolation: true})
	defer b.Close()
	if _, err := b.Probe(t.Context()); err != nil {
		t.Skip(err)
	}
	var out bytes.Buffer
	limits := job.DefaultLimits()
	limits.Processes = 1
	outcome, err := runWith(t.Context(), b, "print(1)", &out, nil, limits)
	if err != nil || outcome.Cause != backends.Exited || outcome.ExitCode != 0 || out.String() != "1\n" {
		t.Errorf("got %+v, stdout %q, error %v, want exit 0", outcome, out.String(), err)
	}
}

type writer func([]byte)

func (w writer) Write(p []byte) (int, error) { w(p); return len(p), nil }

// run runs code; with a failure the conversation ends so once the guest is up.
func run(ctx context.Context, b backends.Backend, code string, stdout io.Writer, failure error) (backends.Outcome, error) {
	return runWith(ctx, b, code, stdout, failure, job.DefaultLimits())
}

func runWith(ctx context.Context, b backends.Backend, code string, stdout io.Writer, failure error, limits job.Limits) (backends.Outcome, error) {
	up := make(chan struct{}, 16)
	return b.Run(ctx, backends.Task{
		Job: job.NewID(), Attempt: 1, Limits: limits, Stderr: os.Stderr,
		Stdout: io.MultiWriter(stdout, writer(func([]byte) { up <- struct{}{} })),
		Serve: func(ctx context.Context, channel io.ReadWriteCloser) error {
			var hello, last frame.Request
			if err := frame.Read(channel, &hello); err != nil {
				return err
			}
			told := frame.Limits{Result: 1 << 20, Frame: frame.Max, Parallel: 1}
			if err := frame.Write(channel, frame.Job{Method: "job", Params: frame.JobParams{Code: code, Limits: told}}); err != nil {
				return err
			}
			if failure != nil {
				<-up
				return failure
			}
			if err := frame.Read(channel, &last); err != nil {
				return err
			}
			return frame.Write(channel, frame.Reply{ID: *last.ID, OK: true})
		},
	})
}

// nothingLeft looks for files, and for processes of our user besides us.
func nothingLeft() error {
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		return fmt.Errorf("got %v in the temporary directory, error %v, want nothing", left, err)
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return err
	}
	for _, entry := range entries {
		info, err := os.Stat(filepath.Join("/proc", entry.Name()))
		status, err2 := os.ReadFile(filepath.Join("/proc", entry.Name(), "status"))
		if err != nil || err2 != nil || int(info.Sys().(*syscall.Stat_t).Uid) != os.Getuid() {
			continue
		}
		if entry.Name() != fmt.Sprint(os.Getpid()) && !strings.Contains(string(status), "State:\tZ") && entry.Name() != "self" && entry.Name() != "thread-self" {
			return fmt.Errorf("process %s is still there: %s", entry.Name(), status)
		}
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
