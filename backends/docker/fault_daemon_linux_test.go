package docker_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"airlock/backends"
	"airlock/backends/docker"
	"airlock/job"

	"github.com/docker/docker/client"
)

// ended is what a Run gave.
type ended struct {
	backends.Outcome
	err error
}

// signs tells when a guest has said something.
type signs struct {
	once sync.Once
	up   chan struct{}
}

func newSigns() *signs { return &signs{up: make(chan struct{})} }

// Write implements io.Writer.
func (s *signs) Write(p []byte) (int, error) {
	s.once.Do(func() { close(s.up) })
	return len(p), nil
}

// sleeper says so and sleeps, with a child that has left its session.
const sleeper = "import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(600)\nprint('up', flush=True)\ntime.sleep(600)"

// sleepers starts guests that sleep and waits until all do.
func sleepers(t *testing.T, ctx context.Context, b backends.Backend, n int) []chan ended {
	t.Helper()
	var all []chan ended
	for range n {
		said, over := newSigns(), make(chan ended, 1)
		go func() {
			out, err := b.Run(ctx, task(sleeper, job.Limits{}, said))
			over <- ended{out, err}
		}()
		select {
		case <-said.up:
		case got := <-over:
			t.Fatalf("got %+v and error %v, want a guest that sleeps", got.Outcome, got.err)
		case <-time.After(60 * time.Second):
			t.Fatal("the guest does not get up")
		}
		all = append(all, over)
	}
	return all
}

// pids are the first processes of the engine's guests that run.
func pids(t *testing.T, api *client.Client) []int {
	var all []int
	for _, state := range containers(t, api) {
		if state.Running {
			all = append(all, state.Pid)
		}
	}
	return all
}

// wantError waits for a Run that cannot know how its guest ended.
func wantError(t *testing.T, over <-chan ended) error {
	t.Helper()
	select {
	case got := <-over:
		if got.err == nil {
			t.Errorf("got %+v of a guest whose end nobody saw, want an error", got.Outcome)
		}
		return got.err
	case <-time.After(60 * time.Second):
		t.Fatal("Run does not return")
		return nil
	}
}

// wantWorks runs a guest that must end well.
func wantWorks(t *testing.T, b backends.Backend) {
	t.Helper()
	out, err := b.Run(t.Context(), task("print(1)", job.Limits{}, newSigns()))
	if err != nil || out.Cause != backends.Exited || out.ExitCode != 0 {
		t.Errorf("got %+v and error %v, want exit 0", out, err)
	}
}

// wantNothingLeft sweeps once and waits for the engine to have no guests.
func wantNothingLeft(t *testing.T, b *docker.Backend, api *client.Client) {
	t.Helper()
	if err := b.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
	until(t, "no container is left", func() bool { return len(containers(t, api)) == 0 })
}

// TestEngineStops: an engine that ends under running guests costs them an
// error of ours, whatever it does to them, and the next guest runs as soon as
// it is back.
func TestEngineStops(t *testing.T) {
	t.Parallel()
	needDockerd(t)
	d := newDockerd(t)
	b := open(t, docker.Config{Host: d.host}.Hurried())
	for _, tt := range []struct {
		name string
		with []string
		by   syscall.Signal
	}{
		{"it is stopped", nil, syscall.SIGTERM},
		{"it crashes", nil, syscall.SIGKILL},
		{"it is stopped and leaves containers", []string{"--live-restore"}, syscall.SIGTERM},
		{"it crashes and leaves containers", []string{"--live-restore"}, syscall.SIGKILL},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d.end(t, syscall.SIGTERM)
			d.args = tt.with
			d.start(t)
			over := sleepers(t, t.Context(), b, 2)
			guests := pids(t, d.api)
			if len(living(guests)) != 2 {
				t.Fatalf("got processes %v of two guests", guests)
			}
			d.end(t, tt.by)
			for _, one := range over {
				wantError(t, one)
			}
			if _, err := b.Run(t.Context(), task("pass", job.Limits{}, newSigns())); err == nil || !strings.Contains(err.Error(), "docker") {
				t.Errorf("got error %v without an engine, want one that says so", err)
			}
			d.start(t)
			wantWorks(t, b)
			wantNothingLeft(t, b, d.api)
			until(t, "the guests' processes are gone", func() bool { return len(living(guests)) == 0 })
		})
	}
}

// TestEngineStalls: requests to an engine that is there and does nothing end, a
// guest's Run in bounded time after its context, and a probe says what is up.
func TestEngineStalls(t *testing.T) {
	t.Parallel()
	needDockerd(t)
	d := newDockerd(t)
	b := open(t, docker.Config{Host: d.host}.Hurried())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	over := sleepers(t, ctx, b, 2)
	guests := pids(t, d.api)
	d.signal(t, syscall.SIGSTOP)
	cancel()
	started := make(chan ended, 1)
	go func() {
		out, err := b.Run(t.Context(), task("pass", job.Limits{}, newSigns()))
		started <- ended{out, err}
	}()
	_, err := b.Probe(t.Context())
	for _, got := range append([]error{err, wantError(t, started)}, wantError(t, over[0]), wantError(t, over[1])) {
		if got == nil || !strings.Contains(got.Error(), "the engine did not answer in time") {
			t.Errorf("got error %v, want one that says that the engine did not answer in time", got)
		}
	}
	if !errors.Is(err, backends.ErrUnavailable) {
		t.Errorf("got error %v from the probe, want one that wraps ErrUnavailable", err)
	}
	d.signal(t, syscall.SIGCONT)
	wantWorks(t, b)
	if _, err := b.Probe(t.Context()); err != nil {
		t.Errorf("got error %v from the probe of an engine that goes on", err)
	}
	wantNothingLeft(t, b, d.api)
	until(t, "the guests' processes are gone", func() bool { return len(living(guests)) == 0 })
}
