package backendtest

import (
	"flag"
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"airlock/backends"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

// lonely are the stories that count what this process holds, so that nothing
// else may run beside them.
func lonely() []story {
	return []story{{name: "nothing stays: descriptors, goroutines, children, mounts, files", rows: "XJ3 XJ4", act: nothingStays}}
}

var leakJobs = flag.Int("leak-jobs", 60, "how many guests run before what is left of them is looked for")

// besides is how many of them run at once.
const besides = 4

// nothingStays compares what this process holds before and after many guests of
// every kind of end, hostile and benign. The first ones may open what the
// backend keeps for good, such as its cgroup.
func nothingStays(t *testing.T, s *suite) {
	s.everyEnd(t, 1)
	s.crowd(t)
	before := s.steady()
	running, goroutines := goleak.IgnoreCurrent(), runtime.NumGoroutine()
	s.everyEnd(t, *leakJobs)
	s.crowd(t)
	after := s.settled(before)
	if diff := cmp.Diff(before.technology, after.technology); diff != "" {
		t.Errorf("the backend's technology holds (-before +after):\n%s", diff)
	}
	if err := s.strayGoroutines(running, goroutines); err != nil {
		t.Errorf("goroutines: %v", err)
	}
	if len(after.descriptors) > len(before.descriptors) {
		maps.DeleteFunc(after.descriptors, func(fd, target string) bool { return before.descriptors[fd] == target })
		t.Errorf("descriptors stay open: %v", after.descriptors)
	}
	// Others of the host may unmount what is theirs meanwhile.
	for line := range strings.Lines(after.mounts) {
		if !strings.Contains(before.mounts, line) {
			t.Errorf("there is a new mount: %s", line)
		}
	}
	if diff := cmp.Diff(s.leftGroups(before), s.leftGroups(after)); diff != "" {
		t.Errorf("control groups (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(before.temp, after.temp); diff != "" {
		t.Errorf("files under %s (-before +after):\n%s", s.temp, diff)
	}
	for _, pid := range after.children {
		if !slices.Contains(before.children, pid) {
			t.Errorf("child %s is still there", pid)
		}
	}
}

// clearing is how long a backend may take to clear away what is dead after its
// Run returned.
const clearing = 20 * time.Second

// steady is what this process holds once it has held as much for a while, so
// that what is being cleared away is not taken for what is kept for good.
func (s *suite) steady() holdings {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	last := s.hold()
	for same, deadline := 0, time.Now().Add(clearing); same < 20 && time.Now().Before(deadline); same++ {
		<-tick.C
		now := s.hold()
		if len(now.descriptors) != len(last.descriptors) {
			same = 0
		}
		last = now
	}
	return last
}

// settled is what this process holds once that is no more than before, or when
// the time to get there is over.
func (s *suite) settled(before holdings) holdings {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(clearing); ; <-tick.C {
		after := s.hold()
		same := len(after.descriptors) <= len(before.descriptors) && after.mounts == before.mounts && slices.Equal(s.leftGroups(after), s.leftGroups(before)) &&
			slices.Equal(after.temp, before.temp) && len(after.technology) <= len(before.technology)
		if same || time.Now().After(deadline) {
			return after
		}
	}
}

// crowd has as many guests at once as there can be, so that a backend which
// keeps something for later guests keeps all it will.
func (s *suite) crowd(t *testing.T) {
	var all sync.WaitGroup
	for range min(s.Keeps, besides) {
		all.Go(func() { exited(0)(t, s.run(t, story{code: "import time\ntime.sleep(0.5)"})) })
	}
	all.Wait()
}

// strayGoroutines looks for those that were not there before. A backend that
// keeps something for later guests may have other ones, but no more.
func (s *suite) strayGoroutines(running goleak.Option, before int) error {
	if s.Keeps == 0 {
		return goleak.Find(running)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(clearing); runtime.NumGoroutine() > before; <-tick.C {
		if time.Now().After(deadline) {
			return fmt.Errorf("there are %d, and were %d: %w", runtime.NumGoroutine(), before, goleak.Find(running))
		}
	}
	return nil
}

// leftGroups are the control groups that are held, without those that the
// backend may keep.
func (s *suite) leftGroups(h holdings) []string {
	names := map[string]bool{}
	for _, group := range h.groups {
		names[filepath.Base(group)] = true
	}
	if s.Keeps > 0 && len(names) <= s.Keeps+1 { // one can be the worker's own
		return nil
	}
	return h.groups
}

// everyEnd runs at least least guests, some at once, of every end there is.
func (s *suite) everyEnd(t *testing.T, least int) {
	t.Helper()
	ends := s.ends()
	work := make(chan story)
	var all sync.WaitGroup
	for range besides {
		all.Go(func() {
			for st := range work {
				st.check(t, s.run(t, st))
			}
		})
	}
	for i := range max(least, len(ends)) {
		work <- ends[i%len(ends)]
	}
	close(work)
	all.Wait()
}

func (s *suite) ends() []story {
	ends := []story{
		{code: "return 1", check: exited(0)},
		{code: "1/0", check: raised("ZeroDivisionError")},
		{code: "import os\nos.abort()", check: signalled("SIGABRT")},
		{code: "import os, time\nos.write(1, b'x')\ntime.sleep(1000)", arrange: cancelAtFirstOutput, check: ended(backends.Killed)},
		{code: junk, check: ended(backends.Killed)},
	}
	limits := slices.Concat(memoryLimits()[:1], cpuLimits()[:1], diskLimits()[:1])
	if s.Lacks["process limit: children"] == "" {
		ends = append(ends, story{code: helped("mark()\ndetached(lambda: time.sleep(1000))"), check: exited(0)})
		full := processLimits()[0]
		full.check = exited(0) // who counts the refusals is that story's affair
		limits = append(limits, full)
	}
	for _, limit := range limits {
		if offers(s.caps, limit.enforce[0]) {
			ends = append(ends, limit)
		}
	}
	return ends
}
