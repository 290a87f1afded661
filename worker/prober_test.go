package worker_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"airlock/backends"
	"airlock/backends/fake"
	"airlock/job"
	"airlock/worker"
)

// switched is a backend that can be away.
type switched struct {
	backends.Backend

	mu     sync.Mutex
	away   error // guarded by mu
	broken error // guarded by mu; what only Run says
	hangs  bool  // guarded by mu
	slow   time.Duration
	probes []time.Time // guarded by mu
	images []string    // guarded by mu
	labels map[string]string
}

func newSwitched(script fake.Script) *switched {
	return &switched{Backend: fake.New(fake.Config{Script: script, Isolation: job.IsolationStrong, Limits: job.KernelLimits()})}
}

// Probe implements backends.Backend.
func (s *switched) Probe(ctx context.Context) (backends.Capabilities, error) {
	s.mu.Lock()
	s.probes = append(s.probes, time.Now())
	away, hangs, images, slow := s.away, s.hangs, s.images, s.slow
	s.mu.Unlock()
	time.Sleep(slow)
	if hangs {
		<-ctx.Done()
		return backends.Capabilities{}, ctx.Err()
	}
	if away != nil {
		return backends.Capabilities{}, away
	}
	can, err := s.Backend.Probe(ctx)
	can.Images, can.Labels = images, s.labels
	return can, err
}

// Run implements backends.Backend.
func (s *switched) Run(ctx context.Context, t backends.Task) (backends.Outcome, error) {
	s.mu.Lock()
	failure := s.away
	if failure == nil {
		failure = s.broken
	}
	s.mu.Unlock()
	if failure != nil {
		return backends.Outcome{}, failure
	}
	return s.Backend.Run(ctx, t)
}

func (s *switched) set(change func(*switched)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func (s *switched) leave() { s.set(func(s *switched) { s.away = errAway }) }
func (s *switched) back()  { s.set(func(s *switched) { s.away = nil }) }
func (s *switched) hang()  { s.set(func(s *switched) { s.hangs = true }) }
func (s *switched) probed() (n int) {
	s.set(func(s *switched) { n = len(s.probes) })
	return n
}

var errAway = errors.New("the engine is away")

// rig is a prober at work on some backends, named a, b and so on.
type rig struct {
	*worker.Prober
	changes atomic.Int64
	log     *bytes.Buffer
}

// newRig probes and goes on probing until the returned function is called.
func newRig(t *testing.T, boxes ...backends.Backend) (r *rig, stop func()) {
	t.Helper()
	r = &rig{log: &bytes.Buffer{}}
	var candidates []worker.Candidate
	for i, b := range boxes {
		candidates = append(candidates, worker.Candidate{Name: string(rune('a' + i)), Backend: b})
	}
	r.Prober = worker.NewProber(worker.ProberConfig{
		Candidates: candidates, Labels: map[string]string{"zone": "x"},
		Changed: func() { r.changes.Add(1) }, Log: zerolog.New(zerolog.SyncWriter(io.MultiWriter(r.log, zerolog.NewTestWriter(t)))),
	})
	r.Probe(t.Context())
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() { defer close(over); r.Run(ctx) }()
	return r, func() { cancel(); <-over }
}

func (r *rig) offered() string {
	var names []string
	for _, box := range r.Sandboxes().Load() {
		names = append(names, box.Name)
	}
	return strings.Join(names, " ")
}

func TestABackendIsWithdrawnAndComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newSwitched(nil), newSwitched(nil)
		r, stop := newRig(t, a, b)
		defer stop()
		if got := r.offered(); got != "a b" || r.Sandboxes().Load()[0].Can.Labels["zone"] != "x" {
			t.Fatalf("got %q at the start, want a b with the host's labels", got)
		}
		before := r.changes.Load()
		a.leave()
		time.Sleep(61 * time.Second)
		if got := r.offered(); got != "b" {
			t.Errorf("got %q after a probe of a failed, want b", got)
		}
		if diff := cmp.Diff(map[string]string{"a": errAway.Error()}, r.Unavailable()); diff != "" {
			t.Errorf("reasons (-want +got):\n%s", diff)
		}
		a.back()
		time.Sleep(time.Minute)
		// It is as preferred as it was before.
		if got := r.offered(); got != "a b" || len(r.Unavailable()) != 0 {
			t.Errorf("got %q, reasons %v; want a b and none", got, r.Unavailable())
		}
		if got := r.changes.Load() - before; got != 2 {
			t.Errorf("told of %d changes, want 2", got)
		}
	})
}

// TestABackendBringsItsTemplates: which templates there are is said by who has
// them, and everything else of the host by its operator.
func TestABackendBringsItsTemplates(t *testing.T) {
	t.Parallel()
	warm := newSwitched(nil)
	warm.labels = map[string]string{"template.data": "true", "zone": "b", "fork": "yes"}
	p := worker.NewProber(worker.ProberConfig{
		Candidates: []worker.Candidate{{Name: "warm", Backend: warm}, {Name: "cold", Backend: newSwitched(nil)}},
		Labels:     map[string]string{"zone": "x", "template.data": "no", "template.more": "true"}, Log: zerolog.Nop(),
	})
	p.Probe(t.Context())
	boxes := p.Sandboxes().Load()
	want := []map[string]string{{"zone": "x", "fork": "yes", "template.data": "true"}, {"zone": "x"}}
	if diff := cmp.Diff(want, []map[string]string{boxes[0].Can.Labels, boxes[1].Can.Labels}); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"template.data": "true", "zone": "b", "fork": "yes"}, warm.labels); diff != "" {
		t.Errorf("the backend's own map was changed (-want +got):\n%s", diff)
	}
}

func TestABackendThatWasNotThereAtTheStartComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newSwitched(nil), newSwitched(nil)
		a.leave()
		r, stop := newRig(t, a, b)
		defer stop()
		if got := r.offered(); got != "b" {
			t.Fatalf("got %q at the start, want b", got)
		}
		time.Sleep(time.Hour)
		a.back()
		time.Sleep(61 * time.Second)
		if got := r.offered(); got != "a b" {
			t.Errorf("got %q a minute after a came, want a b", got)
		}
	})
}

func TestAnOfferThatChangesIsNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newSwitched(nil)
		r, stop := newRig(t, a)
		defer stop()
		time.Sleep(10*time.Minute + time.Second)
		if got := r.changes.Load(); got != 1 {
			t.Errorf("told of %d changes, want the first only", got)
		}
		if got := a.probed(); got != 11 {
			t.Errorf("got %d probes in 10 minutes, want one at the start and one a minute", got)
		}
		a.set(func(s *switched) { s.images = []string{"new"} })
		time.Sleep(61 * time.Second)
		if got := r.Sandboxes().Load()[0].Can.Images; r.changes.Load() != 2 || !slices.Equal(got, []string{"new"}) {
			t.Errorf("told of %d changes, images %v; want 2 and the new one", r.changes.Load(), got)
		}
	})
}

// TestFailuresBringTheProbeForward: at once, and then not at each of a swarm.
func TestFailuresBringTheProbeForward(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newSwitched(nil)
		r, stop := newRig(t, a)
		defer stop()
		a.leave()
		r.Ended("nobody", true)
		r.Ended("a", true)
		synctest.Wait()
		if got := r.offered(); got != "" || r.Unavailable()["a"] != errAway.Error() {
			t.Errorf("got %q at once after a failure, reasons %v; want nothing", got, r.Unavailable())
		}
		before := a.probed()
		for range 300 {
			r.Ended("a", true)
			time.Sleep(100 * time.Millisecond)
		}
		if got := a.probed() - before; got < 4 || got > 7 {
			t.Errorf("got %d probes in 30 s of failures, want one in 5 s", got)
		}
	})
}

// TestABackendThatOnlyProbesWellRests: jobs are not thrown at one that fails
// them all.
func TestABackendThatOnlyProbesWellRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, stop := newRig(t, newSwitched(nil))
		defer stop()
		fail := func(n int) {
			for range n {
				r.Ended("a", true)
				synctest.Wait()
			}
		}
		fail(1) // its probe goes well
		fail(3)
		r.Ended("a", false)
		fail(4)
		if got := r.offered(); got != "a" {
			t.Errorf("got %q after some failures with a good job among them, want a", got)
		}
		fail(1)
		if got := r.offered(); got != "" || !strings.Contains(r.Unavailable()["a"], "5 jobs in a row") {
			t.Errorf("got %q, reasons %v; want a withdrawn for five failures in a row", got, r.Unavailable())
		}
		time.Sleep(6 * time.Second)
		if got := r.offered(); got != "a" {
			t.Errorf("got %q after the next probe went well, want a", got)
		}
	})
}

// TestRestsGrow: of a backend whose probes go well and whose jobs all fail
// ever fewer are lost, and one good job is enough to have it back.
func TestRestsGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newSwitched(nil)
		r, stop := newRig(t, a)
		defer stop()
		try := func(span time.Duration) (lost int) {
			for end := time.Now().Add(span); time.Now().Before(end); time.Sleep(time.Second) {
				if r.offered() == "a" {
					lost++
					r.Ended("a", true)
				}
			}
			return lost
		}
		lost := try(10 * time.Minute)
		if lost < 5+9 || lost > 5+14 {
			t.Errorf("%d jobs were lost in 10 minutes, want 5 and then one for each rest of 5, 10, 20, 40 and 60 s", lost)
		}
		if got := a.probed(); got > lost {
			t.Errorf("got %d probes, %d jobs were lost; want none while it rests", got, lost)
		}
		before := r.changes.Load()
		if try(time.Minute); r.changes.Load()-before > 2 {
			t.Errorf("told of %d changes in a minute, want one rest's", r.changes.Load()-before)
		}
		for r.offered() == "" {
			time.Sleep(time.Second)
		}
		r.Ended("a", false)
		for range 4 {
			r.Ended("a", true)
		}
		if r.offered() != "a" {
			t.Error("withdrawn for 4 failures after a good job")
		}
		r.Ended("a", true)
		synctest.Wait()
		if r.offered() != "" {
			t.Error("offered after 5 failures")
		}
		time.Sleep(5*time.Second + time.Millisecond)
		if r.offered() != "a" {
			t.Error("a good job did not shorten the next rest to 5 s")
		}
	})
}

// TestAProbeThatRunsDoesNotEndARest: it began before the failures were known.
func TestAProbeThatRunsDoesNotEndARest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newSwitched(nil)
		r, stop := newRig(t, a)
		defer stop()
		a.set(func(s *switched) { s.slow = 3 * time.Second })
		for range 5 {
			r.Ended("a", true)
			synctest.Wait()
		}
		time.Sleep(4 * time.Second)
		if got := r.offered(); got != "" {
			t.Errorf("got %q once the probe was over, want nothing while it rests", got)
		}
		time.Sleep(5 * time.Second)
		if got := r.offered(); got != "a" {
			t.Errorf("got %q after the rest and another probe, want a", got)
		}
	})
}

func TestABackendThatIsAwayIsTriedLessAndLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newSwitched(nil)
		a.leave()
		_, stop := newRig(t, a)
		defer stop()
		time.Sleep(4 * time.Minute)
		a.mu.Lock()
		defer a.mu.Unlock()
		var pauses []time.Duration
		for i := range a.probes[1:] {
			pauses = append(pauses, a.probes[i+1].Sub(a.probes[i]))
		}
		want := []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second, time.Minute, time.Minute}
		if diff := cmp.Diff(want, pauses); diff != "" {
			t.Errorf("pauses (-want +got):\n%s", diff)
		}
	})
}

func TestAProbeThatHangsHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newSwitched(nil), newSwitched(nil)
		r, stop := newRig(t, a, b)
		defer stop()
		a.hang()
		b.leave()
		time.Sleep(61 * time.Second)
		if got := r.offered(); got != "a" {
			t.Errorf("got %q while the probe of a hangs, want a, which is not known to be away", got)
		}
		time.Sleep(2 * time.Minute)
		if got := r.offered(); got != "" {
			t.Errorf("got %q after a's probe was given up, want nothing", got)
		}
	})
}

// TestAShutdownIsNoFailure: what a probe says because it was interrupted is
// not shown.
func TestAShutdownIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newSwitched(nil)
		r, stop := newRig(t, a)
		a.hang()
		time.Sleep(61 * time.Second)
		stop()
		if got := r.offered(); got != "a" || len(r.Unavailable()) != 0 {
			t.Errorf("got %q, reasons %v; want a and none", got, r.Unavailable())
		}
	})
}

// TestWithdrawalLeavesRunningJobsAlone: they end as they would have, and the
// next job is given back.
func TestWithdrawalLeavesRunningJobsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(ctx context.Context, _ *fake.Guest) (backends.Outcome, error) {
			select {
			case <-time.After(10 * time.Minute):
			case <-ctx.Done():
			}
			return backends.Outcome{Cause: backends.Exited}, nil
		}
		a := newSwitched(slow)
		r, stop := newRig(t, a)
		defer stop()
		done := &job.Report{Ready: time.Now(), Done: true, Value: []byte("1")}
		b := newBench(t, &ledger{}, said{report: done}, nil, func(j *job.Job, c *worker.Config) {
			j.Limits.Wall = job.Duration(time.Hour)
			c.Sandboxes, c.Ended = r.Sandboxes(), r.Ended
		})
		defer heartbeat(t, b)()
		over := make(chan struct{})
		go func() { defer close(over); b.Handle(t.Context(), b.delivery()) }()
		synctest.Wait()
		a.leave()
		time.Sleep(2 * time.Minute)
		if got := r.offered(); got != "" || b.Running() != 1 {
			t.Fatalf("got %q offered and %d running, want none and 1", got, b.Running())
		}
		other := newBench(t, &ledger{}, said{report: done}, nil, func(_ *job.Job, c *worker.Config) { c.Sandboxes = r.Sandboxes() })
		other.Handle(t.Context(), other.delivery())
		if diff := cmp.Diff([]string{"later"}, other.ledger.seen()); diff != "" {
			t.Errorf("a job that comes meanwhile (-want +got):\n%s", diff)
		}
		<-over
		if got := b.ledger.last(); got == nil || got.Status != job.StatusOK {
			t.Errorf("the running job: got %+v, want ok", got)
		}
	})
}

func TestWhichFailuresAreTheBackends(t *testing.T) {
	t.Parallel()
	fails := func(err error) fake.Script {
		return func(context.Context, *fake.Guest) (backends.Outcome, error) { return backends.Outcome{}, err }
	}
	hello := &job.Report{Ready: time.Now(), Done: true}
	for _, tc := range []struct {
		name   string
		script fake.Script
		tools  said
		edit   func(*job.Job, *worker.Config)
		want   []string
	}{
		{name: "the backend lost the guest", script: lost, tools: said{report: hello}, want: []string{fake.Name}},
		{name: "the guest did not start", script: ends(backends.Outcome{Cause: backends.Exited}), tools: said{report: &job.Report{}}, want: []string{fake.Name}},
		{name: "a limit cannot be held", script: fails(backends.ErrUnenforceable), tools: said{report: hello}},
		{name: "a limit is above the maximum", script: lost, tools: said{report: hello}, edit: func(_ *job.Job, c *worker.Config) { c.Max.Memory = 1 }},
		{name: "the audit failed", script: lives, tools: said{report: hello, err: errDatabase}},
		{name: "the guest failed", script: ends(backends.Outcome{Cause: backends.Exited, ExitCode: 3}), tools: said{report: hello}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			b := newBench(t, &ledger{}, tc.tools, tc.script, func(j *job.Job, c *worker.Config) {
				c.Ended = func(backend string, failed bool) {
					if failed {
						got = append(got, backend)
					}
				}
				if tc.edit != nil {
					tc.edit(j, c)
				}
			})
			b.Handle(t.Context(), b.delivery())
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("blamed (-want +got):\n%s", diff)
			}
		})
	}
}
