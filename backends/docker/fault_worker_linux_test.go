package docker_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"airlock/backends"
	"airlock/backends/docker"
	"airlock/job"

	"github.com/docker/docker/client"
)

// workAs is what this test binary does as a worker.
func workAs(ctx context.Context, what string) error {
	switch what {
	case "floods":
		return floodWorker(ctx)
	case "small":
		return smallWorker(ctx)
	}
	var some int
	if _, err := fmt.Sscan(what, &some); err != nil {
		return fmt.Errorf("worker %q: %w", what, err)
	}
	return sleepWorker(ctx, some)
}

// sleepWorker runs guests that sleep until it is killed, or its standard input
// ends, and says how many got up and how many then ended as they should.
func sleepWorker(ctx context.Context, some int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	b := docker.New(docker.Config{})
	var up, over sync.WaitGroup
	failed := make(chan error, some)
	for range some {
		said := newSigns()
		up.Go(func() { <-said.up })
		over.Go(func() {
			out, err := b.Run(ctx, task(sleeper, job.Limits{}, said))
			if err != nil || out.Cause != backends.Killed {
				failed <- fmt.Errorf("got %+v and error %v, want it killed", out, err)
			}
		})
	}
	up.Wait()
	fmt.Println("up")
	_, _ = io.Copy(io.Discard, os.Stdin)
	cancel()
	over.Wait()
	select {
	case err := <-failed:
		return err
	default:
		return b.Close()
	}
}

// worker is another process that runs guests.
type worker struct {
	cmd   *exec.Cmd
	stdin io.Closer
	said  bytes.Buffer
}

// startWorker starts one and waits until its guests are up.
func startWorker(t *testing.T, guests int) *worker {
	t.Helper()
	w := &worker{cmd: exec.CommandContext(t.Context(), os.Args[0])}
	w.cmd.Env, w.cmd.Stderr = append(os.Environ(), fmt.Sprintf("%s=%d", asWorker, guests)), &w.said
	var err error
	if w.stdin, err = w.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "up\n" {
		t.Fatalf("got %q and error %v from the worker, want up: %s", line, err, w.said.String())
	}
	return w
}

// containers are the worker's, by what they do and the process that does it.
func (w *worker) containers(t *testing.T, api *client.Client) (running []int, all int) {
	t.Helper()
	mine := fmt.Sprintf("-%d-", w.cmd.Process.Pid)
	for owner, state := range containers(t, api) {
		if !strings.Contains(owner, mine) {
			continue
		}
		all++
		if state.Running {
			running = append(running, state.Pid)
		}
	}
	return running, all
}

// TestWorkersKilled: the guests of a worker that is killed end by themselves,
// the next sweep of another removes their containers, and those of a worker
// that lives are left alone.
func TestWorkersKilled(t *testing.T) {
	t.Parallel()
	open(t, docker.Config{})
	engine := api(t, "")
	const guests = 3
	killed, lives := startWorker(t, guests), startWorker(t, 1)
	doomed, _ := killed.containers(t, engine)
	spared, _ := lives.containers(t, engine)
	if len(living(doomed)) != guests || len(living(spared)) != 1 {
		t.Fatalf("got guests %v and %v, want %d and 1", doomed, spared, guests)
	}
	began := time.Now()
	if err := killed.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = killed.cmd.Wait()
	until(t, "the guests have ended by themselves", func() bool { return len(living(doomed)) == 0 })
	t.Logf("%v from the worker's end to its guests'", time.Since(began))
	if _, all := killed.containers(t, engine); all == 0 {
		t.Log("a backend of another test has removed the containers already")
	}
	open(t, docker.Config{})
	until(t, "their containers are removed", func() bool { _, all := killed.containers(t, engine); return all == 0 })
	if got, _ := lives.containers(t, engine); !slices.Equal(got, spared) {
		t.Errorf("got guests %v of a worker that lives, want %v", got, spared)
	}
	_ = lives.stdin.Close()
	if err := lives.cmd.Wait(); err != nil {
		t.Errorf("the worker that lives: %v: %s", err, lives.said.String())
	}
	if _, all := lives.containers(t, engine); all != 0 {
		t.Errorf("it left %d containers", all)
	}
}

// TestSmallestPrints: the smallest limits that a job may have are enough for
// the smallest job.
func TestSmallestPrints(t *testing.T) {
	t.Parallel()
	b := open(t, docker.Config{})
	var said bytes.Buffer
	limits := job.MinLimits()
	limits.Wall = job.DefaultLimits().Wall
	out, err := b.Run(t.Context(), task("print(1)", limits, &said))
	if err != nil || out.Cause != backends.Exited || out.ExitCode != 0 || said.String() != "1\n" {
		t.Errorf("got %+v, error %v and output %q, want exit 0 and 1", out, err, said.String())
	}
	t.Logf("it took %v and %d bytes", out.CPU, out.PeakMemory)
}

// smallWorker runs some guests that show each limit to hold.
func smallWorker(ctx context.Context) error {
	b := docker.New(docker.Config{})
	defer b.Close()
	can, err := b.Probe(ctx)
	if err != nil {
		return err
	}
	small := job.Limits{CPU: job.Duration(time.Second), Memory: 64 * job.MiB, Processes: 4, Disk: job.MiB}
	for _, one := range []struct {
		code string
		want backends.Cause
		exit int
	}{
		{"print(1)", backends.Exited, 0},
		{"import os; os._exit(7)", backends.Exited, 7},
		{"while True: pass", backends.OutOfCPU, 0},
		{"x = b'x' * (300 << 20)", backends.OutOfMemory, 0},
		{"import socket\ntry:\n    socket.create_connection(('127.0.0.1', 1), 1)\nexcept OSError:\n    import os; os._exit(5)", backends.Exited, 5},
	} {
		out, err := b.Run(ctx, task(one.code, small, io.Discard))
		if err != nil || out.Cause != one.want || out.ExitCode != one.exit {
			return fmt.Errorf("%q: got %+v and error %v, want it %s with %d", one.code, out, err, one.want, one.exit)
		}
	}
	fmt.Println("works with", can.Version)
	return nil
}
