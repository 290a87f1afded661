package docker_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"airlock/backends"
	"airlock/backends/docker"
	"airlock/backends/internal/guestproc"
	"airlock/backends/internal/owner"
	"airlock/job"

	"github.com/docker/docker/api/types/container"
)

// asWorker makes this test binary a worker, so that one can be killed.
const asWorker = "AIRLOCK_TEST_DOCKER_WORKER"

func TestMain(m *testing.M) {
	if os.Getenv(asWorker) == "" {
		os.Exit(m.Run())
	}
	if err := workAs(context.Background(), os.Getenv(asWorker)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// task is a guest that runs the code, which must end without a result of note.
func task(code string, limits job.Limits, stdout io.Writer) backends.Task {
	return backends.Task{
		Job: job.NewID(), Attempt: 1, Limits: limits.WithDefaults(), Stdout: stdout, Stderr: io.Discard,
		Serve: func(ctx context.Context, channel io.ReadWriteCloser) error {
			_ = guestproc.Converse(channel, code) // the outcome tells
			return nil
		},
	}
}

// open makes a backend on the engine that there is.
func open(t testing.TB, config docker.Config) *docker.Backend {
	t.Helper()
	b := docker.New(config)
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	if _, err := b.Probe(t.Context()); err != nil {
		if slices.Contains(strings.Split(os.Getenv("AIRLOCK_REQUIRE"), ","), docker.Name) {
			t.Fatalf("AIRLOCK_REQUIRE names docker, but: %v", err)
		}
		t.Skip(err)
	}
	return b
}

// TestFirstProcess: the process that reports how a guest ended, and holds the
// streams that all is carried over, cannot be ended, stopped, looked into or
// written to by the guest, although both are the same user's.
func TestFirstProcess(t *testing.T) {
	t.Parallel()
	b := open(t, docker.Config{})
	code := `
import os
open_to_all = 0
for path in ("/proc/1/mem", "/proc/1/fd/0", "/proc/1/fd/1", "/proc/1/fd/2", "/proc/1/environ", "/proc/1/maps", "/airlock/python"):
    for flags in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR):
        try:
            os.open(path, flags)
            print(path, flags, flush=True)
            open_to_all = 1
        except OSError:
            pass
for number in range(1, 65):
    try:
        os.kill(1, number)
    except OSError:
        pass
os._exit(8 if open_to_all else 7)`
	var said strings.Builder
	out, err := b.Run(t.Context(), task(code, job.Limits{}, &said))
	if err != nil || out.Cause != backends.Exited || out.ExitCode != 7 {
		t.Errorf("got %+v and error %v, want exit 7; it could open %q", out, err, said.String())
	}
}

// TestSmallest: the smallest limits that a job may have are held, below what
// an engine can start a container with.
func TestSmallest(t *testing.T) {
	t.Parallel()
	b := open(t, docker.Config{})
	limits := job.MinLimits()
	limits.CPU = job.Duration(5 * time.Second)
	code := "import os\ntry:\n    os.fork()\nexcept OSError:\n    os._exit(5)\nos._exit(6)"
	out, err := b.Run(t.Context(), task(code, limits, io.Discard))
	if err != nil || out.Cause != backends.Exited || out.ExitCode != 5 {
		t.Errorf("got %+v and error %v, want exit 5: a second process refused", out, err)
	}
}

func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); !done(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// TestLeft: a sweep leaves alone what another worker may want.
func TestLeft(t *testing.T) {
	t.Parallel()
	self, err := owner.This()
	if err != nil {
		t.Fatal(err)
	}
	mine := self.Name("1")
	parts := strings.Split(mine, "-")
	dead := strings.Join([]string{parts[0], parts[1], parts[2], "0", parts[4]}, "-")
	now := time.Now()
	fresh, old := now.Add(-time.Minute), now.Add(-time.Hour)
	for _, tt := range []struct {
		name, owner, host, state string
		created                  time.Time
		want                     bool
		deadline                 time.Time
	}{
		{name: "own", owner: mine, host: "host", state: container.StateRunning, created: old, deadline: old},
		{name: "a dead worker's", owner: dead, host: "host", state: container.StateRunning, created: fresh, deadline: now, want: true},
		{name: "a dead worker's, or so it seems, on another host", owner: dead, host: "elsewhere", state: container.StateRunning, created: old},
		{name: "past its deadline, on another host", owner: dead, host: "elsewhere", state: container.StateRunning, created: old, deadline: old, want: true},
		{name: "just past its deadline, on another host", owner: dead, host: "elsewhere", state: container.StateRunning, created: old, deadline: fresh},
		{name: "over for long, on another host", owner: dead, host: "elsewhere", state: container.StateExited, created: old, want: true},
		{name: "just over, on another host", owner: dead, host: "elsewhere", state: container.StateExited, created: fresh},
		{name: "nobody's", host: "host", state: container.StateExited, created: old},
		{name: "nobody's, with a deadline", host: "elsewhere", state: container.StateRunning, created: old, deadline: old},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			labels := map[string]string{"airlock.owner": tt.owner, "airlock.host": tt.host}
			if !tt.deadline.IsZero() {
				labels["airlock.deadline"] = tt.deadline.Format(time.RFC3339)
			}
			got, err := docker.Left(container.Summary{Labels: labels, State: tt.state, Created: tt.created.Unix()}, now)
			if err != nil || got != tt.want {
				t.Errorf("got %v and error %v, want %v", got, err, tt.want)
			}
		})
	}
}

// TestLost: what could not be removed while the engine was away is removed by
// the next sweep, and what still runs is not.
func TestLost(t *testing.T) {
	t.Parallel()
	during, after, err := docker.Lost()
	if err != nil || during || !after {
		t.Errorf("got %v while it runs and %v afterwards, error %v, want false and true", during, after, err)
	}
}

// TestUnavailable: the reason says what to do about it.
func TestUnavailable(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	unavailable(t, docker.Config{Host: "tcp://" + l.Addr().String()}, "DOCKER_HOST")
	unavailable(t, docker.Config{Host: "no address"}, "no address")
	t.Run("image", func(t *testing.T) {
		open(t, docker.Config{})
		unavailable(t, docker.Config{Images: []string{"airlock-runner:none"}}, "dev/runner-image.sh")
		unavailable(t, docker.Config{Runtime: "no-such-runtime"}, "no-such-runtime")
	})
}

// TestEngineHangs: an engine that takes a request and never answers keeps
// nobody for ever.
func TestEngineHangs(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // who connects waits in its backlog
	unavailable(t, docker.Config{Host: "tcp://" + l.Addr().String()}.Hurried(), "did not answer in time")
}

func unavailable(t *testing.T, config docker.Config, want string) {
	t.Helper()
	b := docker.New(config)
	defer b.Close()
	_, err := b.Probe(t.Context())
	if !errors.Is(err, backends.ErrUnavailable) || !strings.Contains(err.Error(), want) {
		t.Errorf("got error %v, want one that wraps ErrUnavailable and names %q", err, want)
	}
}

// TestSharedMemory: what multiprocessing needs is there, bounded like the other
// places that a guest may write to.
func TestSharedMemory(t *testing.T) {
	t.Parallel()
	b := open(t, docker.Config{})
	for _, tt := range []struct {
		name, code string
		exit       int
		full       bool
	}{
		{"used", `
import multiprocessing as mp, multiprocessing.shared_memory as sm, os
block = sm.SharedMemory(create=True, size=4096)
lock = mp.get_context("fork").Lock()
with lock: block.buf[0] = 7
code = block.buf[0]
block.close(); block.unlink()
os._exit(code)`, 7, false},
		{"filled", `
import os
fd = os.open("/dev/shm/x", os.O_RDWR | os.O_CREAT, 0o600)
try:
    while True: os.write(fd, b"x" * (1 << 20))
except OSError: pass
os._exit(8)`, 8, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			limits := job.Limits{Disk: 8 * job.MiB}
			out, err := b.Run(t.Context(), task(tt.code, limits, io.Discard))
			if err != nil || out.Cause != backends.Exited || out.ExitCode != tt.exit || out.DiskFull != tt.full {
				t.Errorf("got %+v and error %v, want exit %d and full %v", out, err, tt.exit, tt.full)
			}
		})
	}
}

// TestUsers: guests that run at once are different users.
func TestUsers(t *testing.T) {
	t.Parallel()
	b := open(t, docker.Config{})
	said := make(chan string, 2)
	together, release := context.WithCancel(t.Context())
	defer release()
	over := make(chan error, 2)
	for range 2 {
		go func() {
			guest := task("import os, time\nos.write(1, str(os.getuid()).encode())\ntime.sleep(600)", job.Limits{}, writer(func(p []byte) { said <- string(p) }))
			_, err := b.Run(together, guest)
			over <- err
		}()
	}
	var users []string
	for range 2 {
		select {
		case user := <-said:
			users = append(users, user)
		case err := <-over:
			t.Fatalf("a guest is over: %v", err)
		}
	}
	if users[0] == users[1] || users[0] == "0" {
		t.Errorf("got users %v of guests at once, want two", users)
	}
	release()
	for range 2 {
		if err := <-over; err != nil {
			t.Error(err)
		}
	}
}
