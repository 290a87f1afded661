package docker

import (
	"context"
	"io"
	"time"

	"airlock/backends"
	"airlock/backends/internal/cgroup"
	"airlock/backends/internal/owner"

	"github.com/docker/docker/api/types/container"
)

// Request is what the engine is asked for one guest.
func Request(config Config, task backends.Task) (string, container.Config, container.HostConfig) {
	b := New(config)
	f := &facts{profile: "{}", netProfile: `{"network":true}`, rations: true}
	g := &guest{
		ready: &ready{config: b.config, hostID: "host"}, backend: b, facts: f, image: &runner{id: "sha256:1"}, uid: 60706, task: task,
	}
	if task.Network {
		g.network = config.Network
	}
	made := g.newRequest("name")
	return made.name, made.config, made.host
}

// CheckKernel is what is made of a guest's kernel, with that runtime.
func CheckKernel(runtime, guests, engines string) error {
	g := &guest{backend: New(Config{Runtime: runtime}), facts: &facts{kernel: engines, runtime: runtime}, greeting: greeting{kernel: guests}}
	return g.checkKernel()
}

// Demux reads the standard output out of an attached stream.
func Demux(from io.Reader) io.Reader { return &demux{from: from} }

// Ended is the outcome of a guest with that wait status.
func Ended(task backends.Task, stopped error, spent bool, status uint32, usage cgroup.Usage) backends.Outcome {
	return (&guest{task: task, stopped: stopped, spent: spent}).judge(ending{status: status}, usage)
}

// Remote has guests' counters read from the engine, as those of an engine on
// another host are.
func (c Config) Remote() Config {
	c.remote = true
	return c
}

// Left reports whether a sweep of this process would remove the container.
func Left(c container.Summary, now time.Time) (bool, error) {
	self, err := owner.This()
	if err != nil {
		return false, err
	}
	return (&ready{owner: self, hostID: "host", shared: newShared()}).left(c, now), nil
}

// Lost reports whether a backend would take its own container for one that
// nobody sees to, while somebody does and afterwards.
func Lost() (during, after bool, err error) {
	self, err := owner.This()
	r := &ready{owner: self, hostID: "host", shared: newShared()}
	name, forget := r.newName()
	c := container.Summary{State: container.StateRunning, Labels: map[string]string{labelOwner: name, labelHost: "host"}}
	during = r.left(c, time.Now())
	forget()
	return during, r.left(c, time.Now()), err
}

// ReadGreeting is what is made of the first process's greeting.
func ReadGreeting(text string, uid int) error {
	g, err := readGreeting([]byte(text))
	if err != nil {
		return err
	}
	return g.check(uid)
}

// FirstVersion is what the first process must speak.
const FirstVersion = version

// ReadEnding is what is made of the first process's report of the end.
func ReadEnding(body []byte) (status uint32, full, many bool, cpu time.Duration, largest int64, err error) {
	e, err := readEnding(body)
	return e.status, e.diskFull, e.many, e.cpu, e.largest, err
}

// Clearer removes containers behind the backs of Runs.
type Clearer struct{ c *clearer }

func NewClearer() Clearer { return Clearer{newClearer()} }

// Room is how many removals may be begun, and how many of them run.
func (c Clearer) Room() (begun, running int) { return cap(c.c.waiting), cap(c.c.working) }

// Later has something done like a removal.
func (c Clearer) Later(do func()) { c.c.later(func(context.Context) { do() }) }

// Wait is what Close does.
func (c Clearer) Wait() { c.c.wait() }

// Hang has a removal begun that ends when it is given up.
func (c Clearer) Hang() { c.c.later(func(ctx context.Context) { <-ctx.Done() }) }

// Hurried is the configuration with little patience for an engine.
func (c Config) Hurried() Config {
	c.patience = patience{ask: 3 * time.Second, start: 6 * time.Second, remove: 4 * time.Second, kill: time.Second}
	return c
}

// Sweep is what the sweeper does every minute.
func (b *Backend) Sweep(ctx context.Context) error {
	r, err := b.prepare(ctx)
	if err != nil {
		return err
	}
	r.sweepOnce(ctx)
	return nil
}
