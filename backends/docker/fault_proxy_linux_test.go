package docker_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"airlock/backends"
	"airlock/backends/docker"
	"airlock/job"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"
)

// proxy stands between a client and the engine. Each connection carries one
// request, as the client keeps none idle.
type proxy struct {
	host, engine string
	listener     net.Listener
	conns        sync.WaitGroup

	mu   sync.Mutex
	cuts []*cut   // guarded by mu
	seen []string // guarded by mu; the requests' first lines
	// stalls are requests that get no answer yet; guarded by mu
	stalls []stall

	// starting is how many containers are being started, most how many were
	// at once.
	starting, most atomic.Int64
	// starts is how many were ever started.
	starts atomic.Int64
}

// stall keeps requests that contain the text until then.
type stall struct {
	request string
	until   <-chan struct{}
}

// cut is one connection to be cut, that of the first request which matches.
type cut struct {
	request *regexp.Regexp
	// refused: the engine does not see it. Else its answer is lost.
	refused bool
	// when: the answer passes until this is closed.
	when <-chan struct{}
	done chan struct{}
}

func newProxy(t *testing.T) *proxy {
	t.Helper()
	dir, err := os.MkdirTemp("", "airlock-proxy-")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{host: "unix://" + filepath.Join(dir, "s"), engine: api(t, "").DaemonHost()}
	if p.listener, err = net.Listen("unix", filepath.Join(dir, "s")); err != nil {
		t.Fatal(err)
	}
	var accepting sync.WaitGroup
	accepting.Go(func() {
		for {
			conn, err := p.listener.Accept()
			if err != nil {
				return
			}
			p.conns.Go(func() { p.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = p.listener.Close()
		accepting.Wait()
		p.conns.Wait()
		_ = os.RemoveAll(dir)
	})
	return p
}

// cut cuts the next request that matches.
func (p *proxy) cut(request string, refused bool, when <-chan struct{}) (done <-chan struct{}) {
	c := &cut{request: regexp.MustCompile(request), refused: refused, when: when, done: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cuts = append(p.cuts, c)
	return c.done
}

// cutFor is the cut that a request has coming, or nil.
func (p *proxy) cutFor(line string) *cut {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = append(p.seen, line)
	for i, c := range p.cuts {
		if c.request.MatchString(line) {
			p.cuts = append(p.cuts[:i:i], p.cuts[i+1:]...)
			return c
		}
	}
	return nil
}

// requests are those so far that match.
func (p *proxy) requests(which string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	match := regexp.MustCompile(which)
	var found []string
	for _, line := range p.seen {
		if match.MatchString(line) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

// await returns when the request is not stalled any more, which is when its test is over.
func (p *proxy) await(line string) {
	p.mu.Lock()
	stalls := slices.Clone(p.stalls)
	p.mu.Unlock()
	for _, s := range stalls {
		if strings.Contains(line, s.request) {
			<-s.until
		}
	}
}

func (p *proxy) serve(from net.Conn) {
	defer from.Close()
	in := bufio.NewReader(from)
	line, err := in.ReadString('\n')
	if err != nil {
		return
	}
	if strings.Contains(line, "/start ") {
		p.starts.Add(1)
		now := p.starting.Add(1)
		defer p.starting.Add(-1)
		for most := p.most.Load(); now > most && !p.most.CompareAndSwap(most, now); most = p.most.Load() {
		}
	}
	c := p.cutFor(line)
	if c != nil && c.refused {
		close(c.done)
		return
	}
	p.await(line)
	to, err := dialEngine(p.engine)
	if err != nil {
		return
	}
	defer to.Close()
	go func() {
		_, _ = io.Copy(to, io.MultiReader(strings.NewReader(line), in))
		_ = to.Close() // the client never closes one half
	}()
	p.answer(from, to, c)
}

// dialEngine connects to an engine's address.
func dialEngine(host string) (net.Conn, error) {
	at, err := client.ParseHostURL(host)
	if err != nil {
		return nil, err
	}
	if at.Scheme == "unix" {
		return net.Dial("unix", at.Host+at.Path)
	}
	return net.Dial(at.Scheme, at.Host)
}

func (p *proxy) answer(from, to net.Conn, c *cut) {
	if c == nil {
		_, _ = io.Copy(from, to)
		return
	}
	defer close(c.done)
	if c.when == nil {
		_, _ = to.Read(make([]byte, 1)) // the engine has done it
		return
	}
	stop := make(chan struct{})
	go func() {
		defer close(stop)
		_, _ = io.Copy(from, to)
	}()
	<-c.when
	_ = to.Close()
	<-stop
}

// TestCuts: whatever request's connection breaks, the guest's Run is an error
// of ours, the next one works, and nothing is left.
func TestCuts(t *testing.T) {
	t.Parallel()
	open(t, docker.Config{})
	for _, tt := range []struct {
		name, request string
		refused       bool
		// sure: how the guest ended is known all the same.
		sure bool
	}{
		{name: "create is not heard of", request: "^POST .*/containers/create", refused: true},
		{name: "create's answer is lost", request: "^POST .*/containers/create"},
		{name: "attach is not heard of", request: "^POST .*/attach", refused: true},
		{name: "attach's answer is lost", request: "^POST .*/attach"},
		{name: "start is not heard of", request: "^POST .*/start", refused: true},
		{name: "start's answer is lost", request: "^POST .*/start"},
		{name: "its state is not heard of", request: "^GET .*/containers/[0-9a-f]+/json"},
		{name: "remove is not heard of", request: "^DELETE ", refused: true, sure: true},
		{name: "remove's answer is lost", request: "^DELETE ", sure: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := newProxy(t)
			b := open(t, docker.Config{Host: p.host}.Hurried())
			id := job.NewID()
			done := p.cut(tt.request, tt.refused, nil)
			work := task("print(1)", job.Limits{}, newSigns())
			work.Job = id
			out, err := b.Run(t.Context(), work)
			if err == nil && (!tt.sure || out.Cause != backends.Exited || out.ExitCode != 0) {
				t.Errorf("got %+v and no error", out)
			}
			settled(t, done)
			wantWorks(t, b)
			wantGone(t, b, id)
		})
	}
	t.Run("the streams break under a guest", func(t *testing.T) {
		t.Parallel()
		p := newProxy(t)
		b := open(t, docker.Config{Host: p.host}.Hurried())
		when := make(chan struct{})
		done := p.cut("^POST .*/attach", false, when)
		over := sleepers(t, context.Background(), b, 1)
		close(when)
		t.Log(wantError(t, over[0]))
		settled(t, done)
		wantWorks(t, b)
	})
}

// TestGuestOfCutStream: a guest whose worker is cut off ends by itself.
func TestGuestOfCutStream(t *testing.T) {
	t.Parallel()
	open(t, docker.Config{})
	p := newProxy(t)
	b := open(t, docker.Config{Host: p.host}.Hurried())
	when := make(chan struct{})
	p.cut("^POST .*/attach", false, when)
	// The engine is not to be told to kill it either.
	unremoved := p.cut("^DELETE ", true, nil)
	id := job.NewID()
	said, over := newSigns(), make(chan ended, 1)
	go func() {
		work := task(sleeper, job.Limits{}, said)
		work.Job = id
		out, err := b.Run(t.Context(), work)
		over <- ended{out, err}
	}()
	<-said.up
	guest := theirs(t, id)
	if len(guest) != 1 || len(living(guest)) != 1 {
		t.Fatalf("got processes %v of one guest", guest)
	}
	close(when)
	until(t, "the guest has ended", func() bool { return len(living(guest)) == 0 })
	wantError(t, over)
	settled(t, unremoved)
	wantGone(t, b, id)
}

// TestKilledByAnother: a container that somebody kills was not ended by its
// guest, which cannot, and so is an error of ours. An engine that stops does it.
func TestKilledByAnother(t *testing.T) {
	t.Parallel()
	b := open(t, docker.Config{})
	id, said, over := job.NewID(), newSigns(), make(chan ended, 1)
	go func() {
		work := task(sleeper, job.Limits{}, said)
		work.Job = id
		out, err := b.Run(t.Context(), work)
		over <- ended{out, err}
	}()
	<-said.up
	engine := api(t, "")
	all, err := engine.ContainerList(t.Context(), container.ListOptions{Filters: filters.NewArgs(filters.Arg("label", "airlock.job="+id.String()))})
	if err != nil || len(all) != 1 {
		t.Fatalf("got containers %v and error %v, want one", all, err)
	}
	if err := engine.ContainerKill(t.Context(), all[0].ID, "SIGKILL"); err != nil {
		t.Fatal(err)
	}
	if err := wantError(t, over); err != nil && !strings.Contains(err.Error(), "code 137") {
		t.Errorf("got error %v, want one that names the code", err)
	}
	wantGone(t, b, id)
}

// settled holds that the cut was made.
func settled(t *testing.T, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(30 * time.Second): // removals come late
		t.Error("no such request was made: this test proves nothing")
	}
}

// theirs are the first processes of a job's containers that run.
func theirs(t *testing.T, id job.ID) []int {
	t.Helper()
	var all []int
	for _, state := range containersOf(t, api(t, ""), "airlock.job="+id.String()) {
		if state.Running {
			all = append(all, state.Pid)
		}
	}
	return all
}

// wantGone sweeps until the job has no container any more.
func wantGone(t *testing.T, b *docker.Backend, id job.ID) {
	t.Helper()
	until(t, "the job's container is gone", func() bool {
		if err := b.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		return len(containersOf(t, api(t, ""), "airlock.job="+id.String())) == 0
	})
}

// TestRefusedRuntime: a runtime that starts no guest is not tried with each
// probe, since a start that fails can leave processes on the engine's host.
func TestRefusedRuntime(t *testing.T) {
	t.Parallel()
	open(t, docker.Config{})
	p := newProxy(t)
	for _, runtime := range docker.Variants() {
		b := docker.New(docker.Config{Host: p.host, Runtime: runtime})
		defer b.Close()
		_, first := b.Probe(t.Context())
		before := p.starts.Load()
		_, second := b.Probe(t.Context())
		switch tried := p.starts.Load() > before; {
		case first == nil && !tried:
			t.Errorf("%s: a probe that went well was not made again", runtime)
		case first != nil && (tried || second == nil || second.Error() != first.Error()):
			t.Errorf("%s: got error %v after %v, tried again: %v; want the same and no try", runtime, second, first, tried)
		}
	}
}
