// Package backendtest holds the stories that every backend must pass: small
// Python guests, and what must be observed of each. A new backend is a
// constructor and a test that calls Run; a new promise in backends.Backend is
// a new story here first.
//
// The guests are run by the real guest runtime, through the real channel. The
// worker's end is a small host of this package, so that a story fails for what
// the backend did and for nothing else.
//
// The stories about walls are told of every backend. Where the level is none
// they are negative controls: each attack must then get through, since a check
// that cannot fail proves nothing. An attack for which that cannot be shown
// has the reason beside it.
package backendtest

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"airlock/backends"
	"airlock/job"
)

// Harness is what the suite needs to know of a backend.
type Harness struct {
	// Name is the backend's, as AIRLOCK_REQUIRE names it.
	Name string
	// New makes a backend. The suite closes it.
	New func(t testing.TB) backends.Backend
	// Except maps a story's name to the reason why it is not told of this
	// backend.
	Except map[string]string
	// Lacks maps a story's name to what the backend's guests do not have, so
	// that none can act it out.
	Lacks map[string]string
	// Plain says why a guest's memory ends by MemoryError and not by a kill,
	// why its files have neither links nor every name, and why a full file
	// system and too many descriptors may be EIO.
	Plain string
	// Coarse says why system calls that the filter does not name, or whose
	// arguments it looks at, may fail with EPERM instead of what it says.
	Coarse string
	// Holds lists what the backend's technology holds for this process beyond
	// what every suite looks for, such as containers; nil is nothing.
	Holds func() []string
	// Keeps is how many control groups the backend keeps for later guests,
	// with a descriptor or two for each.
	Keeps int
	// Unrecorded keeps the run out of the page: it tells of a backend that
	// another run tells of.
	Unrecorded bool
	// Shares maps the kernel's name of a namespace to the reason why guests
	// may share the host's.
	Shares map[string]string
}

// patience bounds each run. It is no assertion: a story that needs it fails.
const patience = 5 * time.Minute

// secretName is the variable of the host that no guest may see, and
// secretValue what it holds.
const (
	secretName  = "AIRLOCK_TEST_SECRET"
	secretValue = "canary-8d1f3c-in-the-workers-environment"
)

// suite is a backend under test.
type suite struct {
	Harness
	backend backends.Backend
	caps    backends.Capabilities
	// temp is where the backend finds os.TempDir: whatever is in it after a
	// run was left behind.
	temp string
	recorder
}

// Run tells every story of the backend. It skips with the reason that Probe
// gave where the backend is not available, and fails instead where
// AIRLOCK_REQUIRE names it.
func Run(t *testing.T, h Harness) {
	s := &suite{Harness: h, temp: publicDir(t)}
	t.Setenv("TMPDIR", s.temp)
	t.Setenv(secretName, secretValue)
	s.backend = h.New(t)
	t.Cleanup(func() {
		if err := s.backend.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	s.probe(t)
	s.checkExceptions(t)
	t.Cleanup(func() { s.report(t) })

	// Whoever counts descriptors and goroutines must be alone.
	for _, st := range lonely() {
		t.Run(st.name, func(t *testing.T) { s.tell(t, st) })
	}
	t.Run("stories", func(t *testing.T) {
		for _, st := range stories() {
			t.Run(st.name, func(t *testing.T) {
				t.Parallel()
				s.tell(t, st)
			})
		}
	})
}

func (s *suite) probe(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	caps, err := s.backend.Probe(ctx)
	if err != nil && required(s.Name) {
		t.Fatalf("AIRLOCK_REQUIRE names %s, but: %v", s.Name, err)
	}
	if err != nil {
		t.Skipf("%s: %v", s.Name, err)
	}
	s.caps = caps
	for _, limit := range job.KernelLimits() {
		by := caps.Isolated.Limits[limit]
		if held := slices.Contains(caps.Limits, limit); held && by == "" {
			t.Errorf("the %s limit is offered, but Isolated.Limits does not say by what it is enforced", limit)
		}
		if required(s.Name) && !slices.Contains(caps.Limits, limit) && caps.Offer.Isolation != job.IsolationNone {
			t.Errorf("AIRLOCK_REQUIRE names %s, but it does not enforce the %s limit here", s.Name, limit)
		}
	}
	if caps.Backend != s.Name || caps.Offer.Isolation == "" || caps.OS == "" || caps.Arch == "" || caps.Python == "" {
		t.Errorf("got offer %+v, want backend %s with isolation, os, arch and python", caps.Offer, s.Name)
	}
}

// checkExceptions fails for a story that does not exist, or no longer does.
func (s *suite) checkExceptions(t *testing.T) {
	known := map[string]bool{}
	for _, st := range slices.Concat(lonely(), stories()) {
		if known[st.name] {
			t.Errorf("two stories are called %q", st.name)
		}
		known[st.name] = true
	}
	if !complete {
		return // a name may be of a story that only Linux has
	}
	for name := range s.Except {
		if !known[name] {
			t.Errorf("Except names %q, which is no story", name)
		}
	}
	for name := range s.Lacks {
		if !known[name] || s.Except[name] != "" {
			t.Errorf("Lacks names %q, which is no story or in Except too", name)
		}
	}
}

// walled reports whether the attacks must fail.
func (s *suite) walled() bool { return s.caps.Offer.Isolation != job.IsolationNone }

func required(name string) bool {
	return slices.Contains(strings.Split(os.Getenv("AIRLOCK_REQUIRE"), ","), name)
}

// publicDir makes a directory that also unprivileged users can reach, unlike
// t.TempDir's. It is removed when the test ends.
func publicDir(t testing.TB) string {
	dir, err := os.MkdirTemp("", "airlock-backendtest-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove: %v", err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}
