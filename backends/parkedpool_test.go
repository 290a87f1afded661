package backends_test

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"airlock/backends"
	"airlock/job"
)

// def is the default memory in MiB.
const def = 256

func TestParkedGuestsAge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd()
		b := c.park(t, backends.ParkedConfig{Size: 3, MaxAge: time.Minute})
		later(59 * time.Second)
		if got := c.begun(); got != 3 {
			t.Errorf("before they are old %d guests were started, want 3", got)
		}
		later(10 * time.Second)
		if got, living := c.begun(), c.living(); got != 6 || living[def] != 3 {
			t.Errorf("when they are old %d guests were started and %v live, want 6 and 3", got, living)
		}
		if err := work(b, "a", def, 0); err != nil {
			t.Error(err)
		}
	})
}

func TestAGuestThatDoesNotGreetIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, log := newCrowd(), &lines{}
		c.boot = time.Hour
		c.park(t, backends.ParkedConfig{Size: 4, Starts: 2, Log: logTo(log)})
		later(59 * time.Second)
		if got := c.begun(); got != 2 {
			t.Errorf("%d guests were started at once, want 2", got)
		}
		later(30 * time.Second)
		if got := c.begun(); got != 3 || log.with("greet") != 1 {
			t.Errorf("got %d guests and the log %q; want a third, and one line", got, log.all)
		}
	})
}

func TestFewGuestsStartAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd()
		c.boot = time.Second
		c.park(t, backends.ParkedConfig{Size: 9, Starts: 3})
		later(10 * time.Second)
		if c.most != 3 || c.living()[def] != 9 {
			t.Errorf("%d started at once and %v live, want 3 and 9", c.most, c.living())
		}
	})
}

func TestRunningJobsAreLeftTheProcessors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd()
		b := c.park(t, backends.ParkedConfig{Size: 2, Starts: 1})
		later(time.Second)
		var jobs sync.WaitGroup
		for _, takes := range []time.Duration{time.Minute, time.Hour} {
			jobs.Go(func() { _ = work(b, "a", def, takes) })
		}
		later(59 * time.Second)
		if got := c.begun(); got != 2 {
			t.Errorf("%d guests were started while the processor had jobs, want the first 2", got)
		}
		later(2 * time.Second)
		if got := c.living()[def]; got != 2 {
			t.Errorf("%d guests stand ready when a job has ended, want 2", got)
		}
		jobs.Wait()
	})
}

// TestPlacesGoToWhatJobsAskFor runs jobs one after the other, and looks at what is
// parked afterwards and how many guests were started for it.
func TestPlacesGoToWhatJobsAskFor(t *testing.T) {
	t.Parallel()
	const big, huge = 512, 1024
	repeat := func(n int, kinds ...int) (all []int) {
		for range n {
			all = append(all, kinds...)
		}
		return all
	}
	for name, tt := range map[string]struct {
		size  int
		jobs  []int
		want  map[int]int
		wants int // guests at most
	}{
		"nothing":                       {2, nil, map[int]int{def: 2}, 2},
		"default only":                  {2, repeat(20, def), map[int]int{def: 2}, 22},
		"two other jobs":                {2, []int{big, big}, map[int]int{big: 2}, 6},
		"default, then four others":     {2, append(repeat(20, def), repeat(4, big)...), map[int]int{def: 1, big: 1}, 30},
		"default, then six others":      {2, append(repeat(20, def), repeat(6, big)...), map[int]int{def: 1, big: 1}, 32},
		"default, then seven others":    {2, append(repeat(20, def), repeat(7, big)...), map[int]int{big: 2}, 34},
		"one other job":                 {2, []int{big}, map[int]int{def: 1, big: 1}, 4},
		"one other job, one place":      {1, []int{big}, map[int]int{big: 1}, 3},
		"another batch":                 {4, repeat(30, big), map[int]int{big: 4}, 40},
		"default, then another batch":   {2, append(repeat(20, def), repeat(20, big)...), map[int]int{big: 2}, 50},
		"two by turns":                  {2, repeat(20, def, big), map[int]int{def: 1, big: 1}, 44},
		"two by turns, neither default": {2, repeat(20, huge, big), map[int]int{huge: 1, big: 1}, 46},
		"a rare one":                    {2, repeat(5, append(repeat(9, def), big)...), map[int]int{def: 2}, 60},
		"three by turns for one place":  {1, repeat(30, def, big, huge), nil, 100 + 90/2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newCrowd()
				c.boot = 10 * time.Millisecond
				b := c.park(t, backends.ParkedConfig{Size: tt.size, Starts: 2})
				for _, mib := range tt.jobs {
					later(100 * time.Millisecond)
					if err := work(b, "a", mib, 0); err != nil {
						t.Fatal(err)
					}
				}
				later(100 * time.Millisecond)
				if diff := cmp.Diff(tt.want, c.living()); tt.want != nil && diff != "" {
					t.Errorf("parked (-want +got):\n%s", diff)
				}
				if got := c.begun(); got > tt.wants {
					t.Errorf("%d guests were started for %d jobs, want at most %d", got, len(tt.jobs), tt.wants)
				}
				later(2 * time.Minute)
				if diff := cmp.Diff(map[int]int{def: tt.size}, c.living()); diff != "" {
					t.Errorf("parked when nothing was asked for for a while (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestAClassIsServedFromItsPlaces holds that a job gets a guest of its limits,
// and that it was there before.
func TestAClassIsServedFromItsPlaces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd()
		c.boot = time.Second
		b := c.park(t, backends.ParkedConfig{Size: 2, Starts: 2})
		later(time.Minute)
		for i, want := range []time.Duration{time.Second, 0, 0, 0} {
			began := time.Now()
			if err := work(b, "a", 512, 0); err != nil {
				t.Fatal(err)
			}
			if got := time.Since(began); got != want {
				t.Errorf("job %d waited %v for its guest, want %v", i, got, want)
			}
			later(10 * time.Second)
		}
	})
}

func TestAFailingBackendIsTriedEverMoreSeldom(t *testing.T) {
	t.Parallel()
	for name, play := range map[string]func(*crowd){
		"at once":       func(c *crowd) { c.sicken() },
		"after a while": func(c *crowd) { c.boot = time.Second; c.sicken() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c, log := newCrowd(), &lines{}
				play(c)
				b := c.park(t, backends.ParkedConfig{Size: 4, Starts: 4, Log: logTo(log)})
				later(5 * time.Minute)
				starts := c.begun()
				if starts < 10 || starts > 18 {
					t.Fatalf("%d guests were started in 5 minutes, want about 16", starts)
				}
				if got := c.starts[4].Sub(c.starts[3]); got > 2*time.Second+c.boot {
					t.Errorf("the first pause, of four that failed together, is %v, want 1 s and up to one more", got)
				}
				for i := 5; i < len(c.starts); i++ {
					gap, before := c.starts[i].Sub(c.starts[i-1]), c.starts[i-1].Sub(c.starts[i-2])
					if gap < before || gap < time.Second || gap > 35*time.Second {
						t.Errorf("pause %d: got %v after %v, want one that grows up to 30 s", i, gap, before)
					}
				}
				if err := work(b, "a", def, 0); !errors.Is(err, errGone) {
					t.Errorf("a job's own guest: got %v, want %v", err, errGone)
				}
				if got := log.with("trying again"); got != 1 {
					t.Errorf("got %d lines of failure, want 1: %q", got, log.all)
				}
				c.mend()
				later(time.Minute)
				if got := c.living()[def]; got != 4 || log.with("parked again") != 1 || len(log.all) != 2 {
					t.Errorf("mended: %d guests stand ready, log %q; want 4, and one more line", got, log.all)
				}
			})
		})
	}
}

// TestOneFailingClassLeavesTheOthers holds that jobs of a class whose guests
// do not start cost the others little.
func TestOneFailingClassLeavesTheOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, log := newCrowd(), &lines{}
		c.broken = func(task backends.Task) error {
			if task.Limits.Memory == 512*job.MiB {
				return errGone
			}
			return nil
		}
		b := c.park(t, backends.ParkedConfig{Size: 2, Starts: 2, Log: logTo(log)})
		for range 100 {
			later(time.Second)
			if err := work(b, "a", 512, 0); !errors.Is(err, errGone) {
				t.Fatalf("got %v, want %v", err, errGone)
			}
		}
		if got := c.begun(); got > 2+100+2*10 {
			t.Errorf("%d guests were started, want 2, one for each job and few more", got)
		}
		later(time.Millisecond)
		if got := c.living()[def]; got != 2 || len(log.all) != 1 {
			t.Errorf("%d default guests stand ready, log %q; want 2, one line", got, log.all)
		}
	})
}

// TestAGuestThatEndedIsGivenNoJob: its end shows on its channel before the
// backend has seen to it, or not before the channel is handed over.
func TestAGuestThatEndedIsGivenNoJob(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]bool{"while it stood": false, "when its job came": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newCrowd()
				b := backends.Parked(&firstHangsUp{crowd: c, late: late}, backends.ParkedConfig{Size: 1})
				defer b.Close()
				if _, err := b.Probe(t.Context()); err != nil {
					t.Fatal(err)
				}
				later(time.Millisecond)
				if err := work(b, "a", def, 0); err != nil {
					t.Fatal(err)
				}
				if got := c.heard(); !slices.Equal(got, []string{"a"}) {
					t.Errorf("guests were told %q, want a once", got)
				}
			})
		})
	}
}

// firstHangsUp is a crowd whose first guest greets and closes its channel,
// which the backend takes a while to see.
type firstHangsUp struct {
	*crowd
	late bool
	once atomic.Bool
}

func (h *firstHangsUp) Run(ctx context.Context, task backends.Task) (backends.Outcome, error) {
	if h.once.Swap(true) {
		return h.crowd.Run(ctx, task)
	}
	ours, theirs := net.Pipe()
	go func() {
		_, _ = ours.Write([]byte("hello"))
		if !h.late {
			_ = ours.Close()
		}
	}()
	err := task.Serve(ctx, closesWhenSettled{theirs})
	pause(ctx, time.Second)
	return backends.Outcome{Cause: backends.Exited}, err
}

// closesWhenSettled ends when its reader stops waiting.
type closesWhenSettled struct{ net.Conn }

func (c closesWhenSettled) SetReadDeadline(time.Time) error { return c.Close() }

func (c closesWhenSettled) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil {
		err = io.EOF
	}
	return n, err
}

// TestANewProbeEndsGuestsOfAnotherKind: results say of a guest what the last
// probe found.
func TestANewProbeEndsGuestsOfAnotherKind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &updated{crowd: newCrowd()}
		b := backends.Parked(c, backends.ParkedConfig{Size: 2})
		defer b.Close()
		for i, want := range []struct {
			version string
			begun   int
		}{{"1", 2}, {"1", 2}, {"2", 4}} {
			c.version = want.version
			if _, err := b.Probe(t.Context()); err != nil {
				t.Fatal(err)
			}
			later(time.Minute)
			if got, living := c.begun(), c.living()[def]; got != want.begun || living != 2 {
				t.Errorf("probe %d: %d guests were started and %d live, want %d and 2", i, got, living, want.begun)
			}
		}
	})
}

// updated is a crowd of some version.
type updated struct {
	*crowd
	version string
}

func (u *updated) Probe(ctx context.Context) (backends.Capabilities, error) {
	can, err := u.crowd.Probe(ctx)
	can.Version = u.version
	return can, err
}

func TestCloseEndsGuestsThatServe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd()
		b := c.park(t, backends.ParkedConfig{Size: 2})
		later(time.Second)
		done := make(chan error, 1)
		go func() { done <- work(b, "a", def, time.Hour) }()
		later(time.Second)
		began := time.Now()
		if err := errors.Join(b.Close(), b.Close()); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil || time.Since(began) > time.Minute {
			t.Errorf("the job ended with %v after %v, want it killed at once", err, time.Since(began))
		}
		if _, err := b.Probe(t.Context()); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if got := c.living(); len(got) != 0 {
			t.Errorf("guests live after Close: %v", got)
		}
	})
}

func TestNoTaskIsForThoseWhoCannotServeIt(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(*backends.Task){
		"an image that is not offered":    func(t *backends.Task) { t.Image = "data" },
		"network where there is none":     func(t *backends.Task) { t.Network = true },
		"a limit that nobody can enforce": func(t *backends.Task) { t.Enforce = []job.LimitName{"wall"} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newCrowd()
				b := c.park(t, backends.ParkedConfig{Size: 1})
				later(time.Second)
				task := backends.Task{
					Limits: job.DefaultLimits(), Stdout: io.Discard, Stderr: io.Discard,
					Serve: func(context.Context, io.ReadWriteCloser) error { return nil },
				}
				edit(&task)
				if _, err := b.Run(t.Context(), task); !errors.Is(err, backends.ErrUnenforceable) {
					t.Errorf("got %v, want %v", err, backends.ErrUnenforceable)
				}
				later(time.Minute)
				if got := c.begun(); got != 1 {
					t.Errorf("%d guests were started, want the first", got)
				}
			})
		})
	}
}
