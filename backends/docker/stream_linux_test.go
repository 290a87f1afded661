package docker_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"airlock/backends"
	"airlock/backends/backendtest"
	"airlock/backends/docker"
	"airlock/job"

	"github.com/rs/zerolog"
)

// TestRemoteConformance tells the same stories, the limits' among them, of
// guests whose counters this host cannot read, as with an engine elsewhere or
// from inside a container.
func TestRemoteConformance(t *testing.T) {
	const unseen = "the engine does not count processes that were refused"
	backendtest.Run(t, backendtest.Harness{
		Name: docker.Name, Shares: shares, Coarse: coarse, Unrecorded: true, Holds: held(t),
		New: func(t testing.TB) backends.Backend {
			return docker.New(docker.Config{Log: zerolog.New(zerolog.NewTestWriter(t))}.Remote())
		},
		Except: map[string]string{"process limit: children": unseen, "process limit: threads": unseen, "zombies are the guest's own": unseen},
	})
}

// TestRemoteProcesses: the limit holds although nobody counts who was refused.
func TestRemoteProcesses(t *testing.T) {
	t.Parallel()
	b := open(t, docker.Config{}.Remote())
	code := "import os, time\nn = 0\ntry:\n    while n < 200:\n        if os.fork() == 0: time.sleep(1000)\n        n += 1\nexcept OSError: pass\nos._exit(n)"
	out, err := b.Run(t.Context(), task(code, job.Limits{Processes: 16}, io.Discard))
	if err != nil || out.Cause != backends.Exited || out.ExitCode != 15 {
		t.Errorf("got %+v and error %v, want exit 15: the sixteenth child refused", out, err)
	}
}

// hiding burns processor time in children that nobody waits for: the kernel
// counts them to no parent that ignores SIGCHLD. Each is below the limit.
const hiding = `
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while True:
    if os.fork() == 0:
        while time.process_time() < 0.3: pass
        os._exit(0)
    try: os.wait()
    except ChildProcessError: pass`

// TestHiddenChildren: they are counted all the same.
func TestHiddenChildren(t *testing.T) {
	t.Parallel()
	b := open(t, docker.Config{}.Remote())
	limit := 2 * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := b.Run(ctx, task(hiding, job.Limits{CPU: job.Duration(limit)}, io.Discard))
	if err != nil || out.Cause != backends.OutOfCPU || out.CPU < limit {
		t.Errorf("got %+v and error %v, want it out of %v of processor time", out, err, limit)
	}
}

// TestCountersByFirstProcess: what a short guest used is known although the
// engine answers no request for its counters before the guest is over, and
// nobody asks for them once.
func TestCountersByFirstProcess(t *testing.T) {
	t.Parallel()
	p := newProxy(t)
	b := open(t, docker.Config{Host: p.host}.Remote())
	before := len(p.requests("/stats"))
	if before == 0 {
		t.Error("the probe has not seen that the engine counts")
	}
	for _, tt := range []struct {
		name, code string
		cpu        time.Duration
		memory     job.Size
		want       backends.Cause
		kills      bool
	}{
		{"nothing", "pass", time.Millisecond, job.MiB, backends.Exited, false},
		{"time", "import time\nwhile time.process_time() < 0.3: pass", 300 * time.Millisecond, job.MiB, backends.Exited, false},
		{"a child's time", "import os, time\nif os.fork() == 0:\n    while time.process_time() < 0.3: pass\n    os._exit(0)\nos.wait()", 300 * time.Millisecond, job.MiB, backends.Exited, false},
		{"an orphan's time", "import os, time\nr, w = os.pipe()\nif os.fork() == 0:\n    if os.fork() == 0:\n        while time.process_time() < 0.3: pass\n    os._exit(0)\nos.close(w)\nos.read(r, 1)", 300 * time.Millisecond, job.MiB, backends.Exited, false},
		{"memory", "x = b'x' * (40 << 20)", time.Millisecond, 40 * job.MiB, backends.Exited, false},
		{"too much memory", "x = b'x' * (300 << 20)", time.Millisecond, 40 * job.MiB, backends.OutOfMemory, true},
		{"too much memory in a child", "import os\nif os.fork() == 0: x = b'x' * (300 << 20)\nos.wait()", time.Millisecond, 40 * job.MiB, backends.Exited, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p.stall("/stats", t)
			out, err := b.Run(t.Context(), task(tt.code, job.Limits{Memory: 64 * job.MiB, Disk: job.MiB}, io.Discard))
			if err != nil || out.Cause != tt.want || (out.OOMKills > 0) != tt.kills {
				t.Fatalf("got %+v and error %v, want %s and kills for memory: %v", out, err, tt.want, tt.kills)
			}
			if out.CPU < tt.cpu || out.CPU > job.DefaultLimits().CPU.Std() {
				t.Errorf("got %v of processor time, want at least %v", out.CPU, tt.cpu)
			}
			if out.PeakMemory < tt.memory || out.PeakMemory > 64*job.MiB {
				t.Errorf("got a peak of %s, want at least %s", out.PeakMemory, tt.memory)
			}
			if by := out.Isolated.Limits[job.LimitCPU]; !strings.Contains(by, "once a second") {
				t.Errorf("got the limit of processor time held by %q, want the engine's counter", by)
			}
		})
	}
	if asked := p.requests(`/stats\?(.*one-shot=(1|true)|.*stream=(0|false))`); len(asked) > 0 {
		t.Errorf("got requests %q, want a stream only", asked)
	}
}

// stall has no request that matches answered until the test is over.
func (p *proxy) stall(request string, t *testing.T) {
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stalls = append(p.stalls, stall{request, over})
}

// TestCountersLost: a guest whose processor time nobody counts any more does
// not run on.
func TestCountersLost(t *testing.T) {
	t.Parallel()
	open(t, docker.Config{})
	for _, tt := range []struct {
		name string
		lose func(p *proxy, t *testing.T)
		want string
	}{
		{"refused", func(p *proxy, t *testing.T) { p.cut("/stats", true, nil) }, "follow the engine's counters"},
		{"silent", func(p *proxy, t *testing.T) { p.stall("/stats", t) }, "did not answer in time"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := newProxy(t)
			b := open(t, docker.Config{Host: p.host}.Remote().Hurried())
			tt.lose(p, t)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := b.Run(ctx, task(sleeper, job.Limits{}, newSigns()))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got error %v, want one that says %q", err, tt.want)
			}
		})
	}
	t.Run("at a probe", func(t *testing.T) {
		t.Parallel()
		p := newProxy(t)
		p.stall("/stats", t)
		unavailable(t, docker.Config{Host: p.host}.Remote().Hurried(), "GET /containers/ID/stats")
	})
}
