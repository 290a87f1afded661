//go:build linux

package faults_test

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"airlock/worker/failpoint"
)

// TestFaults breaks things and counts. It prints the seed, and a line for each
// fault at each step.
func TestFaults(t *testing.T) {
	require(t, "postgres", "pg_ctl")
	say("seed %d: again with make faults SEED=%d", *seed, *seed)
	for _, f := range faults {
		// The short form of a row stands for it where not all run.
		if !f.short && !*full || f.short && f.steps != nil && *full {
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			f.run(t)
		})
	}
}

// said is the lock of standard output.
var said sync.Mutex

func say(format string, args ...any) {
	said.Lock()
	defer said.Unlock()
	fmt.Fprintf(os.Stdout, format+"\n", args...)
}

// rng is the fault's own, so that it does not depend on which others run.
func (f fault) rng() *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(f.name))
	return rand.New(rand.NewPCG(*seed, h.Sum64()))
}

func (f fault) run(t *testing.T) {
	if f.layout.backend == "bubblewrap" || f.layout.backend == "forkserver" {
		require(t, "bubblewrap", "bwrap")
	}
	began := time.Now()
	p := startPlant(t, f.layout, f.rng())
	p.books.serve(t, p) // first: workers ask at their start who offers what
	f.startWorkers(t, p)
	jobs := f.submit(t, p)
	f.strike(t, p)
	p.settle(t, len(jobs)+len(p.load.jobs))
	all := append(jobs, p.load.jobs...)
	if f.after != nil {
		f.after(t, p)
	}
	f.report(t, p, len(all), began)
}

// startWorkers starts one worker for each step and one for the load.
func (f fault) startWorkers(t *testing.T, p *plant) {
	binary := workerBinary(t)
	p.hands = append(p.hands, p.start(t, []string{loadLabel}, "", binary))
	if f.layout.skewed {
		binary = skewedBinary(t)
	}
	points := f.steps
	if points == nil {
		points = failpoint.Names()
	}
	for i, point := range points {
		s := &step{point: point}
		armed := fmt.Sprintf("%s@%d=%s", point, 1+p.rng.IntN(maxHit), f.action)
		s.worker = p.start(t, []string{s.label()}, armed, binary, skewEnv+"="+skew(i))
		p.steps = append(p.steps, s)
	}
	for _, w := range append([]*worker{p.hands[0]}, stepWorkers(p)...) {
		w.awaitReady(t)
	}
	p.attach(t)
	if f.prepare != nil {
		f.prepare(t, p)
	}
}

// skew is two minutes in seconds, ahead for one worker and behind for the next,
// which of them by the seed.
func skew(worker int) string {
	if (uint64(worker)+*seed)%2 == 0 {
		return "120"
	}
	return "-120"
}

func stepWorkers(p *plant) (all []*worker) {
	for _, s := range p.steps {
		all = append(all, s.worker)
	}
	return all
}

func (f fault) submit(t *testing.T, p *plant) (all []asked) {
	for _, s := range p.steps {
		for range jobsPerStep {
			s.jobs = append(s.jobs, newJob(t, p.rng, s.label(), p.backend))
		}
		all = append(all, s.jobs...)
	}
	var group errgroup.Group
	for _, a := range all {
		group.Go(func() error { return p.submit(t.Context(), a) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	return all
}

// strike waits until every step is reached, breaks, mends, and brings help.
func (f fault) strike(t *testing.T, p *plant) {
	p.load = p.startLoad(t)
	for _, s := range p.steps {
		told := func() bool { return s.worker.reached() }
		if !eventually(patience, told) {
			t.Fatalf("no job came to %s:\n%s", s.point, tail(s.worker.said.String()))
		}
	}
	if f.rescued {
		labels := []string{loadLabel}
		for _, s := range p.steps {
			labels = append(labels, s.label())
		}
		p.hands = append(p.hands, p.start(t, labels, "", workerBinary(t)))
	}
	if f.breaks != nil {
		f.breaks(t, p)
	}
	p.load.jobs = p.load.end(t)
}

// report prints a line for each step and fails the test where something does
// not hold.
func (f fault) report(t *testing.T, p *plant, jobs int, began time.Time) {
	c := p.checker(t)
	c.calm = f.calm
	whole := c.read(t, jobs)
	f.keepLogs(t, p)
	took := time.Since(began).Round(100 * time.Millisecond)
	var lines []string
	tell := func(step string, v *verdict) (fine bool) {
		lines = append(lines, f.line(step, v, took))
		return f.judge(t, step, v)
	}
	for _, s := range p.steps {
		if !tell(string(s.point), c.lane(t, s.jobs)) {
			t.Logf("the worker there said:\n%s", tail(s.worker.said.String()))
		}
	}
	tell("load", c.lane(t, p.load.jobs))
	if len(whole.wrong) > 0 || whole.twice > 0 {
		tell("all", whole)
	}
	say("%s", strings.Join(lines, "\n"))
	if t.Failed() {
		for _, w := range p.hands {
			t.Logf("a worker without failpoints said:\n%s", tail(w.said.String()))
		}
	}
}

// keepLogs writes down what every worker said, where that was asked for.
func (f fault) keepLogs(t *testing.T, p *plant) {
	if *logs == "" {
		return
	}
	said := map[string]*worker{}
	for _, s := range p.steps {
		said[string(s.point)] = s.worker
	}
	for i, w := range p.hands {
		said[fmt.Sprintf("hand-%d", i+1)] = w
	}
	for name, w := range said {
		if err := os.WriteFile(filepath.Join(*logs, f.name+"-"+name+".log"), []byte(w.said.String()), 0o600); err != nil {
			t.Error(err)
		}
	}
}

func (f fault) line(step string, v *verdict, took time.Duration) string {
	text := fmt.Sprintf("%-26s %-14s jobs %3d  attempts %3d  lost %d  twice %d  seed %d  %s", f.name, step, v.jobs, v.attempts, v.lost, v.twice, *seed, took)
	if len(v.wrong) > 0 {
		text += fmt.Sprintf("  WRONG %d", len(v.wrong))
	}
	return text
}

func (f fault) judge(t *testing.T, step string, v *verdict) (fine bool) {
	t.Helper()
	fine = v.lost == 0 && v.twice == 0 && len(v.wrong) == 0
	if !fine {
		t.Errorf("%s at %s: lost %d, twice %d\n%s", f.name, step, v.lost, v.twice, strings.Join(v.wrong, "\n"))
	}
	return fine
}

// tail is what a worker said last.
func tail(text string) string {
	const most = 4000
	return text[max(0, len(text)-most):]
}
