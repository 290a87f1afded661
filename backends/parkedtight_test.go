package backends_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"airlock/backends"
)

// TestParkedGuestsGiveWay: they do so one by one, the class that nobody wants
// first, are not replaced, serve jobs until then, and come back.
func TestParkedGuestsGiveWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, log := newCrowd(), &lines{}
		var tight atomic.Bool
		b := c.park(t, backends.ParkedConfig{Size: 4, Starts: 4, Tight: tight.Load, Log: logTo(log)})
		later(time.Second)
		for range 2 {
			if err := work(b, "a", 512, 0); err != nil {
				t.Fatal(err)
			}
			later(100 * time.Millisecond)
		}
		later(time.Second / 2)
		before := c.living()
		if before[def] == 0 || before[512] < 2 || before[def]+before[512] != 4 {
			t.Fatalf("%v are parked before, want 4 of two classes", before)
		}
		begun := c.begun()
		tight.Store(true)
		for before[def] > 0 {
			later(time.Second)
			before[def]--
			if before[def] == 0 {
				delete(before, def)
			}
			if diff := cmp.Diff(before, c.living()); diff != "" {
				t.Fatalf("a second later (-want +got):\n%s", diff)
			}
		}
		if err := work(b, "b", 512, 0); err != nil || c.begun() != begun {
			t.Errorf("a job ended with %v, and %d guests were started, want it served by one that stands", err, c.begun()-begun)
		}
		later(10 * time.Second)
		if got := c.living(); len(got) != 0 || c.begun() != begun {
			t.Errorf("%v are parked and %d were started, want none", got, c.begun()-begun)
		}
		if err := work(b, "c", def, 0); err != nil || c.begun() != begun+1 {
			t.Errorf("a job ended with %v, and %d guests were started, want its own", err, c.begun()-begun)
		}
		if got := log.with("memory is tight"); got != 1 || len(log.all) != 1 {
			t.Errorf("got the log %q, want one line of tight memory", log.all)
		}
		tight.Store(false)
		later(28 * time.Second)
		if got := c.living(); len(got) != 0 {
			t.Errorf("%v are parked soon after memory was tight, want none", got)
		}
		later(4 * time.Second)
		if got := c.living(); got[def]+got[512] != 4 || log.with("no longer tight") != 1 || len(log.all) != 2 {
			t.Errorf("%v are parked and the log is %q, want 4 and one more line", got, log.all)
		}
	})
}

// TestMemoryThatComesAndGoes: a guest more or less must not have all of them
// started and ended again and again.
func TestMemoryThatComesAndGoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, log := newCrowd(), &lines{}
		c.park(t, backends.ParkedConfig{Size: 4, Starts: 4, Log: logTo(log), Tight: func() bool { return c.living()[def] > 2 }})
		later(5 * time.Minute)
		if got := c.begun(); got > 4+2*10 {
			t.Errorf("%d guests were started in 5 minutes where 2 fit, want 2 more at most each half a minute", got)
		}
		if got := len(log.all); got > 20 {
			t.Errorf("got %d lines of log in 5 minutes, want one each time something changes: %q", got, log.all)
		}
	})
}
