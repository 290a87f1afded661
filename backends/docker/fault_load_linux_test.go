package docker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"airlock/backends"
	"airlock/backends/docker"
	"airlock/job"
)

// TestFifty: fifty jobs at once all end well, and no more containers start at
// once than there are cores, since more would only wait for each other.
func TestFifty(t *testing.T) {
	t.Parallel()
	open(t, docker.Config{})
	p := newProxy(t)
	b := open(t, docker.Config{Host: p.host})
	id := job.NewID()
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			var said bytes.Buffer
			work := task(fmt.Sprintf("print(%d)", i), job.Limits{}, &said)
			work.Job = id
			out, err := b.Run(t.Context(), work)
			if err != nil || out.Cause != backends.Exited || out.ExitCode != 0 || said.String() != fmt.Sprintf("%d\n", i) {
				t.Errorf("got %+v, error %v and output %q, want exit 0 and %d", out, err, said.String(), i)
			}
		})
	}
	all.Wait()
	if most := p.most.Load(); most > int64(runtime.NumCPU()) || most == 0 {
		t.Errorf("got %d starts at once, want at most %d", most, runtime.NumCPU())
	}
	until(t, "no container is left", func() bool {
		return len(containersOf(t, api(t, ""), "airlock.job="+id.String())) == 0
	})
}

// floods are guests that write without end or do not read, by what each does.
var floods = map[string]string{
	// Both streams and standard input, of which nothing is read.
	"streams": "import os\nfor _ in range(1024):\n    os.write(1, b'x' * 65536)\n    os.write(2, b'y' * 65536)\nos._exit(3)",
	// Its channel, which nobody reads: what it says is held back.
	"channel": "import os\nprint('up', flush=True)\nwhile True:\n    os.write(3, b'z' * 65536)",
	// Nothing: it has closed all it had, and goes on.
	"closed": "import os, time\nos.write(1, b'up')\nos.closerange(0, 256)\ntime.sleep(600)",
	// Nor does it stay.
	"closed and over": "import os\nos.write(1, b'up')\nos.closerange(0, 256)\nos._exit(4)",
}

// TestFloods: nothing that a guest does with its streams costs the worker or
// the engine memory, and it ends as ever. The worker is a process of its own.
func TestFloods(t *testing.T) {
	t.Parallel()
	open(t, docker.Config{})
	d := enginePid(t)
	before := resident(t, d)
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), asWorker+"=floods")
	said, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(said), "floods held") {
		t.Errorf("error %v: %s", err, said)
	}
	t.Logf("%s", said)
	if grew := resident(t, d) - before; grew > roomForFloods {
		t.Errorf("the engine grew by %d KiB, want at most %d", grew, roomForFloods)
	}
}

// roomForFloods is how many KiB a worker or engine may grow by. The guests
// write 128 MiB to their streams, and more than that to their channel if it
// is taken from them.
const roomForFloods = 64 << 10

// floodWorker is the worker of TestFloods.
func floodWorker(ctx context.Context) error {
	b := docker.New(docker.Config{})
	defer b.Close()
	if _, err := b.Probe(ctx); err != nil {
		return err
	}
	before, err := peak()
	if err != nil {
		return err
	}
	var wrote atomic.Int64
	streams := task(floods["streams"], job.Limits{}, counter{&wrote})
	streams.Stderr, streams.Stdin = counter{&wrote}, make([]byte, 8<<20)
	out, err := b.Run(ctx, streams)
	if err != nil || out.Cause != backends.Exited || out.ExitCode != 3 || wrote.Load() != 128<<20 {
		return fmt.Errorf("streams: got %+v, error %v and %d bytes, want exit 3 and %d", out, err, wrote.Load(), 128<<20)
	}
	for _, name := range []string{"channel", "closed", "closed and over"} {
		if err := floodUntilKilled(ctx, b, name); err != nil {
			return err
		}
	}
	after, err := peak()
	if err != nil || after-before > roomForFloods {
		return fmt.Errorf("the worker grew from %d to %d KiB, error %v, want %d more at most", before, after, err, roomForFloods)
	}
	fmt.Printf("floods held: the worker grew by %d KiB\n", after-before)
	return nil
}

// floodUntilKilled lets a guest do as it will for a while.
func floodUntilKilled(ctx context.Context, b backends.Backend, name string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	said := newSigns()
	work := task(floods[name], job.Limits{CPU: job.Duration(2 * time.Second)}, said)
	serve := work.Serve
	work.Serve = func(ctx context.Context, channel io.ReadWriteCloser) error {
		err := serve(ctx, unread{channel})
		<-ctx.Done()
		return err
	}
	go func() {
		<-said.up
		time.AfterFunc(2*time.Second, cancel)
	}()
	out, err := b.Run(ctx, work)
	want := map[string]backends.Cause{"channel": backends.Killed, "closed": backends.Killed, "closed and over": backends.Exited}[name]
	if err != nil || out.Cause != want {
		return fmt.Errorf("%s: got %+v and error %v, want it %s", name, out, err, want)
	}
	return nil
}

// unread is a channel of which nothing is read after the guest's hello.
type unread struct{ io.ReadWriteCloser }

// counter counts what is written to it.
type counter struct{ n *atomic.Int64 }

// Write implements io.Writer.
func (c counter) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return len(p), nil
}

// peak is the most memory that this process ever had, in KiB.
func peak() (int, error) { return statusOf("self", "VmHWM:") }

// resident is the memory of another process, in KiB.
func resident(t *testing.T, pid int) int {
	t.Helper()
	size, err := statusOf(fmt.Sprint(pid), "VmRSS:")
	if err != nil {
		t.Fatal(err)
	}
	return size
}

func statusOf(pid, name string) (size int, err error) {
	status, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		return 0, err
	}
	_, after, found := strings.Cut(string(status), "\n"+name)
	if !found {
		return 0, errors.New("no " + name)
	}
	_, err = fmt.Sscan(after, &size)
	return size, err
}

// enginePid is the process at the other end of the engine's socket.
func enginePid(t *testing.T) int {
	t.Helper()
	conn, err := dialEngine(api(t, "").DaemonHost())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	local, ok := conn.(syscall.Conn)
	if !ok {
		t.Skip("the engine is elsewhere")
	}
	raw, err := local.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var peer *syscall.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) {
		peer, failed = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); err != nil || failed != nil || peer.Pid == 0 {
		t.Skipf("the engine is elsewhere: %v %v", err, failed)
	}
	return int(peer.Pid)
}
