package backends_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"airlock/backends"
	"airlock/job"
)

// warm is a crowd that parks by tenant, template and memory, and sets limits
// on guests that stand.
type warm struct {
	*crowd

	mu     sync.Mutex // guards all below
	guests []string   // those that were started, in order
	limits []string   // what was set, in order
	broken error      // says Limit, when set
}

func newWarm() *warm { return &warm{crowd: newCrowd()} }

// Parks implements backends.Parker: only guests with little memory share.
func (w *warm) Parks(t backends.Task) backends.Task {
	parks := backends.Task{Tenant: t.Tenant, Template: t.Template, Limits: job.DefaultLimits()}
	parks.Limits.Memory = max(t.Limits.Memory, 256*job.MiB)
	return parks
}

func (w *warm) Run(ctx context.Context, task backends.Task) (backends.Outcome, error) {
	w.note(&w.guests, "%s/%s/%d", task.Tenant, task.Template, task.Limits.Memory/job.MiB)
	serve := task.Serve
	task.Serve = func(ctx context.Context, ch io.ReadWriteCloser) error { return serve(ctx, limited{ch.(net.Conn), w}) }
	return w.crowd.Run(ctx, task)
}

func (w *warm) note(list *[]string, format string, a ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	*list = append(*list, fmt.Sprintf(format, a...))
}

// started is how many guests of each kind there were; held is all limits.
func (w *warm) started() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := map[string]int{}
	for _, g := range w.guests {
		all[g]++
	}
	return all
}

func (w *warm) held() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.limits)
}

func (w *warm) breaks(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken = err
}

// limited is a channel with limits.
type limited struct {
	net.Conn
	warm *warm
}

// Limit implements backends.Limiter.
func (l limited) Limit(limits job.Limits) error {
	l.warm.note(&l.warm.limits, "%d MiB before job %d", limits.Memory/job.MiB, len(l.warm.heard()))
	l.warm.mu.Lock()
	defer l.warm.mu.Unlock()
	return l.warm.broken
}

// order is one job of a warm pool.
func (w *warm) order(b backends.Backend, tenant, template string, mib int) error {
	limits := job.DefaultLimits()
	limits.Memory = job.Size(mib) * job.MiB
	_, err := b.Run(context.Background(), backends.Task{
		Tenant: tenant, Template: template, Limits: limits, Enforce: job.KernelLimits(), Stdout: io.Discard, Stderr: io.Discard,
		Serve: func(_ context.Context, ch io.ReadWriteCloser) error {
			if hello := make([]byte, 5); readFull(ch, hello) != "hello" {
				return fmt.Errorf("the guest said %q", hello)
			}
			_, err := ch.Write([]byte("j"))
			return errors.Join(err, ch.Close())
		},
	})
	return err
}

func (w *warm) park(t *testing.T, cfg backends.ParkedConfig) backends.Backend {
	t.Helper()
	b := backends.Parked(w, cfg)
	if _, err := b.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	later(time.Second)
	return b
}

// TestABackendSaysWhatIsParked: jobs with other limits get the guests that
// stand, other tenants and templates get their own.
func TestABackendSaysWhatIsParked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWarm()
		b := w.park(t, backends.ParkedConfig{Size: 2, Starts: 2})
		if diff := cmp.Diff(map[string]int{"default//256": 2}, w.started()); diff != "" {
			t.Fatalf("parked before any job (-want +got):\n%s", diff)
		}
		for _, mib := range []int{64, 128, 256} {
			if err := w.order(b, job.DefaultTenant, "", mib); err != nil {
				t.Error(err)
			}
			later(time.Second)
		}
		if diff := cmp.Diff(map[string]int{"default//256": 5}, w.started()); diff != "" {
			t.Errorf("guests for 3 jobs and 2 places (-want +got):\n%s", diff)
		}
		for _, ask := range []struct{ tenant, template string }{{"acme", ""}, {"default", "data"}, {"acme", "data"}} {
			before := w.started()
			kind := ask.tenant + "/" + ask.template + "/256"
			if err := w.order(b, ask.tenant, ask.template, 256); err != nil {
				t.Error(err)
			}
			if got := w.started()[kind]; before[kind] != 0 || got == 0 {
				t.Errorf("a job of %s had %d guests of its own before and %d after, want none and some", kind, before[kind], got)
			}
			later(time.Second)
		}
	})
}

// TestWithoutParkerAllShare: a backend that says nothing keeps no tenant apart.
func TestWithoutParkerAllShare(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd()
		b := c.park(t, backends.ParkedConfig{Size: 1})
		later(time.Second)
		for i, tenant := range []string{"a", "b"} {
			if err := newWarm().order(b, tenant, "", def); err != nil {
				t.Fatal(err)
			}
			later(time.Second)
			if got := c.begun(); got != i+2 {
				t.Errorf("%d guests were started for %d jobs of different tenants, want one each and the next", got, i+1)
			}
		}
	})
}

// TestLimitsAreSetBeforeAWordIsSaid: once for each job that gets a parked
// guest, and never for one that gets its own.
func TestLimitsAreSetBeforeAWordIsSaid(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWarm()
		b := w.park(t, backends.ParkedConfig{Size: 1})
		for _, mib := range []int{64, 256, 999, 64} {
			if err := w.order(b, job.DefaultTenant, "", mib); err != nil {
				t.Error(err)
			}
			later(2 * time.Minute)
		}
		want := []string{"64 MiB before job 0", "256 MiB before job 1", "64 MiB before job 3"}
		if diff := cmp.Diff(want, w.held()); diff != "" {
			t.Errorf("limits (-want +got):\n%s", diff)
		}
	})
}

// TestAGuestWhoseLimitsCannotBeSet costs its job nothing but a start, and the
// pool one guest.
func TestAGuestWhoseLimitsCannotBeSet(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		err    error
		logged int
	}{
		"the guest's fault": {errGone, 1},
		"the job's":         {fmt.Errorf("memory: %w", backends.ErrUnenforceable), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, log := newWarm(), &lines{}
				b := w.park(t, backends.ParkedConfig{Size: 3, Starts: 3, Log: logTo(log)})
				w.breaks(tt.err)
				if err := w.order(b, job.DefaultTenant, "", 64); err != nil {
					t.Errorf("got %v, want the job run by a guest of its own", err)
				}
				if got := w.started(); len(w.held()) != 1 || got["default//64"] != 1 {
					t.Errorf("limits were set %d times and guests started %v, want one failure and one guest of 64 MiB", len(w.held()), got)
				}
				if got := log.with(tt.err.Error()); got != tt.logged {
					t.Errorf("got %d lines of the failure, want %d: %q", got, tt.logged, log.all)
				}
				if got := w.heard(); len(got) != 1 {
					t.Errorf("guests were told %q, want the job once", got)
				}
				w.breaks(nil)
				later(10 * time.Second)
				if got := w.living()[def]; got != 3 {
					t.Errorf("%d guests stand ready afterwards, want 3", got)
				}
			})
		})
	}
}
