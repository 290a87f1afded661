package backends_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"airlock/backends"
)

// step is one thing that happens to a pool.
type step struct {
	kind  int // of a job, by its memory
	takes time.Duration
	wait  time.Duration
	sick  bool // what is started from now on fails
}

// TestWhateverComes holds what must be so whatever jobs come and fail: places
// are never exceeded, each job is told to one guest and each guest one job,
// and Close leaves nothing.
func TestWhateverComes(t *testing.T) {
	t.Parallel()
	steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
		return step{
			kind:  rapid.IntRange(1, 4).Draw(t, "kind"),
			takes: time.Duration(rapid.IntRange(0, 3000).Draw(t, "takes")) * time.Millisecond,
			wait:  time.Duration(rapid.IntRange(0, 3000).Draw(t, "wait")) * time.Millisecond,
			sick:  rapid.IntRange(0, 9).Draw(t, "sick") == 0,
		}
	}), 1, 60)
	rapid.Check(t, func(rt *rapid.T) {
		size, starts := rapid.IntRange(1, 5).Draw(rt, "size"), rapid.IntRange(1, 3).Draw(rt, "starts")
		script, boot := steps.Draw(rt, "steps"), rapid.IntRange(0, 200).Draw(rt, "boot")
		var failed string
		synctest.Test(t, func(t *testing.T) {
			failed = whatever(t, script, size, starts, time.Duration(boot)*time.Millisecond)
		})
		if failed != "" {
			rt.Fatal(failed)
		}
	})
}

func whatever(t *testing.T, script []step, size, starts int, boot time.Duration) string {
	c := newCrowd()
	c.boot = boot
	b := c.park(t, backends.ParkedConfig{Size: size, Starts: starts, MaxAge: 7 * time.Second})
	var jobs sync.WaitGroup
	var mu sync.Mutex
	running := 0
	var served []string // jobs that did not fail
	for i, s := range script {
		if s.sick {
			c.sicken()
		} else {
			c.mend()
		}
		jobs.Go(func() {
			mu.Lock()
			running++
			mu.Unlock()
			name := fmt.Sprint(i)
			err := work(b, name, s.kind*128, s.takes)
			mu.Lock()
			defer mu.Unlock()
			running--
			if err == nil {
				served = append(served, name)
			}
		})
		later(s.wait)
		mu.Lock()
		untold := 0
		for _, n := range c.living() {
			untold += n
		}
		if untold > size+running {
			return fmt.Sprintf("step %d: %d guests wait for a job, with %d places and %d jobs", i, untold, size, running)
		}
		mu.Unlock()
	}
	jobs.Wait()
	c.mend()
	later(3 * time.Minute)
	if got := c.living(); !cmp.Equal(got, map[int]int{def: size}) {
		return fmt.Sprintf("a while later %v are parked, want %d of the default", got, size)
	}
	if err := b.Close(); err != nil {
		return err.Error()
	}
	if got := c.living(); len(got) > 0 {
		return fmt.Sprintf("guests live after Close: %v", got)
	}
	slices.Sort(served)
	told := c.heard()
	slices.Sort(told)
	if !slices.Equal(served, told) {
		return fmt.Sprintf("jobs %q were served, guests were told %q", served, told)
	}
	return ""
}
