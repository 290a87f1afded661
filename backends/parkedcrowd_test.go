package backends_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"airlock/backends"
	"airlock/backends/fake"
	"airlock/job"
)

// crowd is a backend whose guests greet, wait to be told a job and end with
// it, and which keeps count of them. It is for one synctest bubble.
type crowd struct {
	*fake.Backend
	// boot is how long a guest takes to greet.
	boot time.Duration

	mu sync.Mutex // guards all below
	// broken, when set, may say what becomes of a guest instead.
	broken func(task backends.Task) error
	// starts says when each guest was started, untold counts those that live
	// and were not told a job by their memory, told are the jobs in order.
	starts   []time.Time
	untold   map[job.Size]int
	told     []string
	starting int
	most     int // that were starting at once
}

func newCrowd() *crowd {
	c := &crowd{untold: map[job.Size]int{}}
	c.Backend = fake.New(fake.Config{Isolation: job.IsolationStrong, Limits: job.KernelLimits(), Script: c.play})
	return c
}

func (c *crowd) count(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	c.most = max(c.most, c.starting)
}

func (c *crowd) play(ctx context.Context, g *fake.Guest) (backends.Outcome, error) {
	memory := g.Task.Limits.Memory
	c.count(func() { c.starts = append(c.starts, time.Now()); c.untold[memory]++; c.starting++ })
	once := sync.OnceFunc(func() { c.count(func() { c.starting-- }) })
	defer once()
	pause(ctx, c.boot)
	if err := c.fails(g.Task); err != nil {
		c.count(func() { c.untold[memory]-- })
		return backends.Outcome{}, err
	}
	once() // who hears the greeting may start the next
	_, _ = g.Write([]byte("hello"))
	told := make([]byte, 8)
	n, err := g.Read(told)
	c.count(func() { c.untold[memory]-- })
	if err != nil {
		return backends.Outcome{}, nil
	}
	c.count(func() { c.told = append(c.told, string(told[:n])) })
	if again, _ := g.Read(told); again > 0 {
		c.count(func() { c.told = append(c.told, string(told[:again])) })
	}
	return backends.Outcome{}, nil
}

func (c *crowd) fails(task backends.Task) (err error) {
	c.count(func() {
		if c.broken != nil {
			err = c.broken(task)
		}
	})
	return err
}

// mend has the guests from now on behave.
func (c *crowd) mend() { c.count(func() { c.broken = nil }) }

func (c *crowd) sicken() { c.count(func() { c.broken = func(backends.Task) error { return errGone } }) }

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// living is how many guests of each memory, in MiB, wait for a job.
func (c *crowd) living() map[int]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	living := map[int]int{}
	for memory, n := range maps.All(c.untold) {
		if n > 0 {
			living[int(memory/job.MiB)] = n
		}
	}
	return living
}

// heard is what guests were told, in order.
func (c *crowd) heard() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.told)
}

// begun is how many guests were ever started.
func (c *crowd) begun() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.starts)
}

// park wraps and probes the crowd, and closes it at the end of the test.
func (c *crowd) park(t *testing.T, cfg backends.ParkedConfig) backends.Backend {
	t.Helper()
	b := backends.Parked(c, cfg)
	if _, err := b.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// work runs a job with that memory that takes as long.
func work(b backends.Backend, name string, mib int, takes time.Duration) error {
	limits := job.DefaultLimits()
	limits.Memory = job.Size(mib) * job.MiB
	_, err := b.Run(context.Background(), backends.Task{
		Limits: limits, Enforce: job.KernelLimits(), Stdout: io.Discard, Stderr: io.Discard,
		Serve: func(ctx context.Context, ch io.ReadWriteCloser) error {
			if hello := make([]byte, 5); readFull(ch, hello) != "hello" {
				return fmt.Errorf("the guest said %q", hello)
			}
			if _, err := ch.Write([]byte(name)); err != nil {
				return err
			}
			pause(ctx, takes)
			return ch.Close()
		},
	})
	return err
}

// lines is a log of which lines are counted.
type lines struct {
	mu  sync.Mutex
	all []string // guarded by mu
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, string(b))
	return len(b), nil
}

func (l *lines) with(text string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.all {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

var errGone = errors.New("no such image")

// later lets that much time pass, and all that happens in it.
func later(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func logTo(l *lines) zerolog.Logger { return zerolog.New(l) }
