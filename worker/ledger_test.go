package worker_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"airlock/backends"
	"airlock/backends/fake"
	"airlock/job"
	"airlock/worker"
)

// ledger is a store, queue and results stream in one, which notes in order
// what a worker told it. Its fields are set before use; mu guards the rest.
type ledger struct {
	claim   job.Claim
	claimed error
	// silent is how many claims are made and not answered.
	silent int
	// refuse gives the error of the n-th write, counted from 1.
	refuse func(n int) error
	// beat answers heartbeats; nil confirms all.
	beat func(held []job.Holding) ([]job.Heartbeat, error)

	// tries and triesErr answer Attempts.
	tries    []job.AttemptRecord
	triesErr error

	mu      sync.Mutex
	pauses  []time.Duration // before the next tries
	steps   []string
	writes  int
	results []*job.Result
	lingers []time.Duration
}

func (l *ledger) note(step string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.steps = append(l.steps, step)
}

// seen are the steps: the first one first, the others, of which some happen
// at once, in alphabetical order.
func (l *ledger) seen() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	steps := slices.Clone(l.steps)
	if len(steps) > 1 {
		slices.Sort(steps[1:])
	}
	return steps
}

func (l *ledger) write(step string, r *job.Result) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writes++
	if l.refuse != nil {
		if err := l.refuse(l.writes); err != nil {
			return err
		}
	}
	l.steps = append(l.steps, step)
	l.results = append(l.results, r)
	return nil
}

func (l *ledger) last() *job.Result {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.results) == 0 {
		return nil
	}
	return l.results[len(l.results)-1]
}

func (l *ledger) Claim(context.Context, job.ClaimRequest) (job.Claim, error) {
	if l.silent > 0 {
		l.silent--
		return job.Claim{}, job.ErrUnreachable
	}
	if l.claim.Verdict == 0 {
		l.claim = job.Claim{Verdict: job.Claimed, Attempt: 1, Queued: time.Now()}
	}
	return l.claim, l.claimed
}

func (l *ledger) Heartbeat(_ context.Context, _ string, held []job.Holding) ([]job.Heartbeat, error) {
	if l.beat != nil {
		return l.beat(held)
	}
	beats := make([]job.Heartbeat, len(held))
	for i, h := range held {
		beats[i].Holding = h
	}
	return beats, nil
}

func (l *ledger) Finish(_ context.Context, _ *job.Attempt, r *job.Result, linger time.Duration) error {
	l.mu.Lock()
	l.lingers = append(l.lingers, linger)
	l.mu.Unlock()
	return l.write("finish", r)
}

func (l *ledger) Retry(_ context.Context, a *job.Attempt, r *job.Result, after time.Duration) (job.State, error) {
	l.mu.Lock()
	l.pauses = append(l.pauses, after)
	l.mu.Unlock()
	if a.Number >= a.Job.MaxAttempts && r.Status != job.StatusInfraError {
		return job.StateFinished, l.write("finish", r)
	}
	if a.Number >= a.Job.MaxAttempts {
		return job.StateDead, l.write("dead", r)
	}
	return job.StateRetryWait, l.write("retry", r)
}

func (l *ledger) Release(context.Context, *job.Attempt) error { l.note("release"); return nil }

func (l *ledger) Announced(context.Context, job.ID, time.Duration) error {
	l.note("announced")
	return nil
}

func (l *ledger) Attempts(context.Context, job.ID) ([]job.AttemptRecord, error) {
	return l.tries, l.triesErr
}

func (l *ledger) Announce(context.Context, *job.Result) error { l.note("announce"); return nil }

// said is a conversation that ends at once with a report, or lasts as long as
// its context when the report is nil.
type said struct {
	report *job.Report
	err    error
	before func(clock job.Clock)
}

func (s said) Serve(ctx context.Context, _ *job.Attempt, _ io.ReadWriteCloser, clock job.Clock) (*job.Report, error) {
	clock.Start()
	if s.before != nil {
		s.before(clock)
	}
	if s.report == nil {
		<-ctx.Done()
		return &job.Report{Ready: time.Now()}, nil
	}
	return s.report, s.err
}

// bench is a worker with one fake sandbox.
type bench struct {
	*worker.Worker
	ledger *ledger
	job    *job.Job
}

func newBench(t testing.TB, l *ledger, tools worker.ToolServer, script fake.Script, edit func(*job.Job, *worker.Config)) *bench {
	t.Helper()
	box := fake.New(fake.Config{Script: script, Isolation: job.IsolationStrong, Limits: job.KernelLimits()})
	can, err := box.Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	j := &job.Job{Code: "return 1"}
	cfg := worker.Config{
		ID: "w1", Ledger: l, Results: l, Tools: tools, Log: zerolog.New(zerolog.NewTestWriter(t)),
		Sandboxes: worker.NewSandboxes(worker.Sandbox{Name: fake.Name, Backend: box, Can: can}),
	}
	if edit != nil {
		edit(j, &cfg)
	}
	if err := j.Prepare(time.Now()); err != nil {
		t.Fatal(err)
	}
	return &bench{Worker: worker.New(cfg), ledger: l, job: j}
}

func (b *bench) delivery() job.Delivery {
	return job.Delivery{
		Job: b.job, Generation: 1, Queued: time.Now(),
		Ack:       func(context.Context) error { b.ledger.note("ack"); return nil },
		KeepAlive: func() error { b.ledger.note("alive"); return nil },
		Later:     func(time.Duration) error { b.ledger.note("later"); return nil },
	}
}

// ends is a guest that ends with the outcome.
func ends(o backends.Outcome) fake.Script {
	return func(context.Context, *fake.Guest) (backends.Outcome, error) { return o, nil }
}

// lives is a guest that lives until it is killed.
func lives(ctx context.Context, _ *fake.Guest) (backends.Outcome, error) {
	<-ctx.Done()
	return backends.Outcome{}, nil
}

var errDatabase = errors.New("value too long for the column")

type workerConfig = worker.Config

// lost is a guest whose backend failed.
func lost(context.Context, *fake.Guest) (backends.Outcome, error) {
	return backends.Outcome{}, errors.New("the daemon went away")
}

// heartbeat runs the worker's heartbeats until the returned function is
// called.
func heartbeat(t *testing.T, b *bench) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() { defer close(over); b.Heartbeat(ctx) }()
	return func() { cancel(); <-over }
}
