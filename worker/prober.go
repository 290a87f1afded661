package worker

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"airlock/backends"
	"airlock/job"
)

const (
	// probeEvery is how often a backend that works is probed, and the least
	// that one is which does not.
	probeEvery = time.Minute
	// probeRest is the time between two probes of one backend that failures
	// ask for: each costs a guest, and failures come in swarms. It is also
	// the first pause before a backend that does not work is tried again;
	// the pause doubles.
	probeRest = 5 * time.Second
	// probePatience bounds one probe, whatever it hangs on.
	probePatience = 2 * time.Minute
	// maxReason bounds what presence says of a backend.
	maxReason = 500
)

// Candidate is a backend that is offered while it probes well.
type Candidate struct {
	Name    string
	Backend backends.Backend
}

// ProberConfig is what a Prober needs. All fields but Labels and Changed are
// required.
type ProberConfig struct {
	// Candidates are in order of preference.
	Candidates []Candidate
	// Labels are the host's. One that claims a template is not offered.
	Labels map[string]string
	// Changed is told when the offers or the reasons are others than before.
	// It must be quick.
	Changed func()
	Log     zerolog.Logger
}

// Prober keeps a set of sandboxes to what works: it probes each candidate
// again and again, takes one out when its probe fails, and puts it back when
// it works. What runs in it is left alone. Its methods may be called from
// several goroutines at once.
type Prober struct {
	cfg   ProberConfig
	boxes Sandboxes
	// failed has a place for each candidate that asks for an early probe.
	failed []chan struct{}

	// mu guards states, and the order of stores into boxes.
	mu     sync.Mutex
	states []probed
}

// probed is what is known of one candidate: neither before its first probe.
type probed struct {
	box    *Sandbox
	reason string
	// row counts the attempts that have failed since one went well, rests how
	// often the backend rested for them since. It is not probed before rested.
	row, rests int
	rested     time.Time
}

// NewProber makes a prober that offers nothing yet.
func NewProber(cfg ProberConfig) *Prober {
	if cfg.Changed == nil {
		cfg.Changed = func() {}
	}
	p := &Prober{cfg: cfg, failed: make([]chan struct{}, len(cfg.Candidates)), states: make([]probed, len(cfg.Candidates))}
	for i := range p.failed {
		p.failed[i] = make(chan struct{}, 1)
	}
	return p
}

// Sandboxes is the set that the prober keeps.
func (p *Prober) Sandboxes() *Sandboxes { return &p.boxes }

// Unavailable says of each candidate that is not offered why.
func (p *Prober) Unavailable() map[string]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	why := map[string]string{}
	for i, s := range p.states {
		if s.box == nil && s.reason != "" {
			why[p.cfg.Candidates[i].Name] = s.reason
		}
	}
	return why
}

// Probe probes all candidates beside each other and returns when each has
// been.
func (p *Prober) Probe(ctx context.Context) {
	var all sync.WaitGroup
	for i := range p.cfg.Candidates {
		all.Go(func() { p.probe(ctx, i) })
	}
	all.Wait()
}

// Ended is told how each attempt went. A backend that failed one is probed: at
// once, unless it was for that reason a moment ago. One that fails several
// without running one rests for a while, or it would cost jobs their attempts.
// Ended does not wait.
func (p *Prober) Ended(backend string, failed bool) {
	i := slices.IndexFunc(p.cfg.Candidates, func(c Candidate) bool { return c.Name == backend })
	if i < 0 {
		return
	}
	if tired, is := p.count(i, failed); is {
		p.note(i, tired)
	}
	if !failed {
		return
	}
	select {
	case p.failed[i] <- struct{}{}:
	default: // it has been asked for
	}
}

// Run goes on probing after a first Probe until ctx ends. Each candidate is
// seen to by itself, since a probe of one that hangs takes its time.
func (p *Prober) Run(ctx context.Context) {
	var all sync.WaitGroup
	for i := range p.cfg.Candidates {
		all.Go(func() { p.watch(ctx, i) })
	}
	all.Wait()
}

func (p *Prober) watch(ctx context.Context, i int) {
	misses := 0
	var asked time.Time // when a failure was last the reason
	for {
		misses++
		if p.offered(i) {
			misses = 0
		}
		failed, ok := p.await(ctx, i, pauseAfter(misses), asked.Add(probeRest))
		if !ok || !p.rest(ctx, i) {
			return
		}
		if failed {
			asked = time.Now()
		}
		p.probe(ctx, i)
	}
}

func pauseAfter(misses int) time.Duration {
	if misses == 0 {
		return probeEvery
	}
	return min(probeRest<<min(misses-1, 10), probeEvery)
}

// await waits until the candidate is to be probed again: pause after now, or
// when it has failed, but for that reason not before rested. It reports
// ok=false when ctx ended.
func (p *Prober) await(ctx context.Context, i int, pause time.Duration, rested time.Time) (failed, ok bool) {
	due, rest := time.NewTimer(pause), time.NewTimer(time.Until(rested))
	defer due.Stop()
	defer rest.Stop()
	var failures chan struct{}
	for {
		select {
		case <-ctx.Done():
			return false, false
		case <-due.C:
			return false, true
		case <-failures:
			return true, true
		case <-rest.C:
			failures = p.failed[i]
		}
	}
}

func (p *Prober) offered(i int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.states[i].box != nil
}

// probe asks one candidate what it can do and notes the answer. An answer that
// comes because ctx has ended is none.
func (p *Prober) probe(ctx context.Context, i int) {
	c := p.cfg.Candidates[i]
	asking, cancel := context.WithTimeout(ctx, probePatience)
	defer cancel()
	can, err := c.Backend.Probe(asking)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		p.note(i, probed{reason: job.Printable(err.Error(), maxReason)})
	default:
		can.Labels = p.labels(can.Labels)
		p.note(i, probed{box: &Sandbox{Name: c.Name, Backend: c.Backend, Can: can}})
	}
}

// labels are the host's and those that a backend brings. Of templates only
// the backend can speak, of all else the host does.
func (p *Prober) labels(own map[string]string) map[string]string {
	all := map[string]string{}
	maps.Copy(all, own)
	for name, value := range p.cfg.Labels {
		if !strings.HasPrefix(name, job.TemplateLabel) {
			all[name] = value
		}
	}
	return all
}

// note stores what is known now, and tells of it if it is news.
func (p *Prober) note(i int, now probed) {
	p.mu.Lock()
	before := p.states[i]
	now = now.after(before, time.Now())
	p.states[i] = now
	var boxes []Sandbox
	for _, s := range p.states {
		if s.box != nil {
			boxes = append(boxes, *s.box)
		}
	}
	p.boxes.Store(boxes)
	p.mu.Unlock()
	if now.same(before) {
		return
	}
	p.tell(p.cfg.Candidates[i].Name, now)
	p.cfg.Changed()
}

func (p *Prober) tell(name string, now probed) {
	if now.box == nil {
		p.cfg.Log.Warn().Str(fieldBackend, name).Str(fieldReason, now.reason).Msg("backend not offered")
		return
	}
	p.cfg.Log.Info().Str(fieldBackend, name).Str(fieldVersion, now.box.Can.Version).
		Str(fieldIsolation, string(now.box.Can.Isolation)).Msg("backend offered")
}

func (s probed) same(other probed) bool {
	if s.box == nil || other.box == nil {
		return s.box == other.box && s.reason == other.reason
	}
	return reflect.DeepEqual(s.box.Can, other.box.Can)
}
