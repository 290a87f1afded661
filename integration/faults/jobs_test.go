//go:build linux

package faults_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"airlock/job"
	"airlock/queue"
	"airlock/worker/failpoint"
)

const (
	// jobsPerStep are more than a worker's slots, so that some wait behind
	// the one that meets the fault.
	jobsPerStep = 5
	// maxHit is at which arrival a fault may fall: each job makes at least one
	// call, so that every step is reached that often.
	maxHit = 3
	// loadEvery is how often a job that no fault is aimed at is submitted
	// while parts are broken.
	loadEvery = 100 * time.Millisecond
)

// loadLabel is the lane of those jobs.
const loadLabel = "load"

// asked is a job and what it has to come back with.
type asked struct {
	job *job.Job
	// value is the result's, as JSON.
	value string
}

// step is a point of an attempt and the jobs that have to pass it: a lane of
// their own, so that it is this worker and no other that meets the fault.
type step struct {
	point  failpoint.Name
	worker *worker
	jobs   []asked
}

func (s *step) label() string { return "step-" + string(s.point) }

// newJob makes a job of that lane which makes one to three calls.
func newJob(t testing.TB, rng *rand.Rand, label, backend string) asked {
	t.Helper()
	value := fmt.Sprint(rng.IntN(1_000_000))
	tools := make([]string, 1+rng.IntN(3))
	for i := range tools {
		tools[i] = []string{spend, look}[rng.IntN(2)]
	}
	j := &job.Job{
		ID: job.NewID(), Code: code(backend, tools, value), Tools: []job.Grant{{Namespace: namespace, Name: "*"}},
		Requires: job.Requirement{Backends: []string{backend}, Isolation: isolation(backend), Labels: map[string]string{label: "1"}},
		// Faults take attempts; running out of them is another test's.
		MaxAttempts: 10,
		OnRetry:     []job.OnRetry{job.OnRetryReplay, job.OnRetryRecall}[rng.IntN(2)],
	}
	err := j.Prepare(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return asked{j, value}
}

func isolation(backend string) job.Isolation {
	if backend == "fake" {
		return job.IsolationNone
	}
	return job.IsolationStrong
}

// code makes the calls one after the other. What they answer does not matter:
// a provider may be out of reach.
func code(backend string, tools []string, value string) string {
	if backend == "fake" {
		calls := make([]string, len(tools))
		for i, name := range tools {
			calls[i] = fmt.Sprintf(`{"namespace": %q, "name": %q, "arguments": {"n": %d}}`, namespace, name, i)
		}
		return fmt.Sprintf(`{"fake": {"sleep": "20ms", "calls": [%s], "value": %s}}`, strings.Join(calls, ", "), value)
	}
	var text strings.Builder
	for i, name := range tools {
		fmt.Fprintf(&text, "try:\n    await tools.%s.%s(n=%d)\nexcept ToolError:\n    pass\n", namespace, name, i)
	}
	return text.String() + "return " + value + "\n"
}

// submit tries until the queue has the job: submitting one again is harmless.
func (p *plant) submit(ctx context.Context, a asked) error {
	var last error
	for ctx.Err() == nil {
		once, cancel := context.WithTimeout(ctx, 40*time.Second)
		_, last = p.queue.Submit(once, a.job, queue.SubmitOptions{Park: true})
		cancel()
		if last == nil {
			return nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
	return fmt.Errorf("submit %s: %w", a.job.ID, last)
}

// load submits jobs for as long as parts are broken, as users do.
type load struct {
	stop chan struct{}
	done sync.WaitGroup

	mu   sync.Mutex
	jobs []asked // guarded by mu
	err  error
}

func (p *plant) startLoad(t testing.TB) *load {
	l := &load{stop: make(chan struct{})}
	seeded := rand.New(rand.NewPCG(p.rng.Uint64(), 1))
	l.done.Go(func() {
		tick := time.NewTicker(loadEvery)
		defer tick.Stop()
		for {
			select {
			case <-l.stop:
				return
			case <-tick.C:
			}
			a := newJob(t, seeded, loadLabel, p.backend)
			ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
			err := p.submit(ctx, a)
			cancel()
			l.mu.Lock()
			l.jobs, l.err = append(l.jobs, a), err
			l.mu.Unlock()
			if err != nil {
				return
			}
		}
	})
	return l
}

// end stops submitting and returns what was submitted.
func (l *load) end(t testing.TB) []asked {
	t.Helper()
	close(l.stop)
	l.done.Wait()
	if l.err != nil {
		t.Fatal(l.err)
	}
	return slices.Clone(l.jobs)
}
