package main

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"

	"airlock/job"
	"airlock/queue"
	"airlock/queue/natstest"
)

// fleet plays the workers: it takes jobs from a real queue, gives them the
// results that their code names, and answers the control verbs from memory.
type fleet struct {
	t   testing.TB
	url string
	q   *queue.Queue
	cfg fleetConfig

	showing sync.Mutex // guards away, and is held while the worker is shown
	away    bool

	mu        sync.Mutex // guards what follows
	records   map[job.ID]*job.Record
	results   map[job.ID]*job.Result
	runs      map[job.ID]int
	cancelled map[job.ID]chan struct{}
	// gate, while it is there, holds jobs back.
	gate chan struct{}
}

type fleetConfig struct {
	server  *natstest.Server
	workers int // 1 unless negative
	max     job.Limits
	quota   int64
	slots   int
	// ackWait is job.AckWait unless set.
	ackWait time.Duration
	// muted answers no question.
	muted bool
	// silent announces nothing; results are to be asked for.
	silent bool
}

var linux = job.Offer{
	Backend: "bubblewrap", Version: "0.8.0", Isolation: job.IsolationStrong, OS: "linux", Arch: "amd64", Limits: job.KernelLimits(),
	Labels: map[string]string{"template.data": "true"},
}

func newFleet(t testing.TB, cfg fleetConfig) *fleet {
	t.Helper()
	if cfg.server == nil {
		cfg.server = natstest.Start(t)
	}
	cfg.slots = cmp.Or(cfg.slots, 64)
	ctx, cancel := context.WithCancel(context.Background())
	q, err := queue.Open(ctx, cfg.server.ConnectAs("worker"), queue.Config{Log: zerolog.Nop(), MaxPerTenant: cfg.quota, AckWait: cfg.ackWait})
	if err != nil {
		t.Fatalf("open queue: %v", err)
	}
	f := &fleet{
		t: t, url: cfg.server.URLOf("submitter-default"), q: q, cfg: cfg,
		records: map[job.ID]*job.Record{}, results: map[job.ID]*job.Result{}, runs: map[job.ID]int{},
		cancelled: map[job.ID]chan struct{}{},
	}
	var wg sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		f.open()
		wg.Wait()
		if err := q.Close(); err != nil {
			t.Errorf("close queue: %v", err)
		}
	})
	if cfg.workers < 0 {
		return f
	}
	f.advertise()
	wg.Go(func() { f.keepAdvertised(ctx) })
	wg.Go(func() { f.check(q.Cancels(ctx, f.onCancel)) })
	wg.Go(func() {
		f.check(q.Consume(ctx, queue.ConsumerConfig{
			Offers: func() []job.Offer { return []job.Offer{linux} }, Slots: cfg.slots, Handler: f.handle, HandlerContext: ctx,
		}))
	})
	if !cfg.muted {
		wg.Go(func() { f.check(q.Answer(ctx, f.verbs())) })
		wg.Go(func() { f.check(q.AnswerDecisions(ctx, f.decide)) })
		eventually(t, "answering", func() bool { return cfg.server.Subscriptions("control.") > 0 })
	}
	return f
}

func (f *fleet) check(err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		f.t.Errorf("fleet: %v", err)
	}
}

// keepAdvertised shows the worker again and again, since a server that restarts
// forgets it.
func (f *fleet) keepAdvertised(ctx context.Context) {
	for pause(ctx, time.Second) {
		f.showing.Lock()
		if !f.away {
			if err := f.present(ctx); err != nil && ctx.Err() == nil {
				f.t.Logf("advertise: %v", err)
			}
		}
		f.showing.Unlock()
	}
}

func (f *fleet) advertise() {
	f.t.Helper()
	eventually(f.t, "the worker's show", func() bool { return f.present(context.Background()) == nil })
}

func (f *fleet) present(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return f.q.Advertise(ctx, queue.Presence{
		ID: "w1", Host: "host-a", Version: "1.0", Started: time.Now(), Slots: f.cfg.slots, Offers: []job.Offer{linux},
		Labels: map[string]string{"zone": "x"}, Unavailable: map[string]string{"docker": "no socket\x1b[31m"}, Max: f.cfg.max,
	})
}

// leave takes the worker out of view, back shows it again.
func (f *fleet) leave() {
	f.t.Helper()
	f.showing.Lock()
	defer f.showing.Unlock()
	f.away = true
	if err := f.q.Withdraw(context.Background(), "w1"); err != nil {
		f.t.Fatalf("withdraw: %v", err)
	}
}

func (f *fleet) back() {
	f.showing.Lock()
	defer f.showing.Unlock()
	f.away = false
}

// close holds back what arrives from now on, open lets it go.
func (f *fleet) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gate = make(chan struct{})
}

func (f *fleet) open() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gate != nil {
		close(f.gate)
		f.gate = nil
	}
}

func (f *fleet) handle(ctx context.Context, d job.Delivery) {
	f.mu.Lock()
	gate, ended := f.gate, f.results[d.Job.ID] != nil
	stop := f.stopOf(d.Job.ID)
	if !ended {
		f.runs[d.Job.ID]++
		f.records[d.Job.ID] = recordOf(d)
	}
	f.mu.Unlock()
	if !ended {
		if gate != nil {
			select {
			case <-gate:
			case <-stop:
			case <-ctx.Done():
				return
			}
		}
		r := f.perform(ctx, d.Job, stop)
		if ctx.Err() != nil {
			return
		}
		f.finish(r)
		if !f.cfg.silent {
			if err := f.q.Announce(ctx, r); ctx.Err() == nil {
				f.check(err)
			}
		}
	}
	if err := d.Ack(ctx); err != nil && ctx.Err() == nil {
		f.t.Logf("acknowledge: %v", err)
	}
}

func (f *fleet) stopOf(id job.ID) chan struct{} {
	if f.cancelled[id] == nil {
		f.cancelled[id] = make(chan struct{})
	}
	return f.cancelled[id]
}

func recordOf(d job.Delivery) *job.Record {
	return &job.Record{
		ID: d.Job.ID, Key: d.Job.Key, Tenant: d.Job.Tenant, Batch: d.Job.Batch, Labels: d.Job.Labels, Lane: d.Job.Requires.Lane(),
		Priority: d.Job.Priority, State: job.StateRunning, Generation: d.Generation, MaxAttempts: d.Job.MaxAttempts, Submitted: d.Queued,
		Attempt: 1, Worker: "w1", Backend: "bubblewrap",
		Attempts: []job.AttemptRecord{{Number: 1, Worker: "w1", Backend: "bubblewrap", Started: time.Now(), Outcome: "running"}},
	}
}

// perform does what the code says: "print TEXT", "value JSON", "fail", "infra",
// "hang", "echo" (the job's inputs as the value).
func (f *fleet) perform(ctx context.Context, j *job.Job, stop <-chan struct{}) *job.Result {
	r := &job.Result{
		Job: j.ID, Key: j.Key, Tenant: j.Tenant, Batch: j.Batch, Status: job.StatusOK, Attempt: 1, Worker: "w1", Backend: "bubblewrap",
	}
	verb, rest, _ := strings.Cut(j.Code, " ")
	switch verb {
	case "print":
		r.Stdout, r.StdoutBytes = job.Bytes(rest), int64(len(rest))
	case "value":
		r.Value = jsontext.Value(rest)
	case "fail":
		r.Status = job.StatusGuestError
		r.Stderr, r.StderrBytes = job.Bytes("warned\n"), 7
		r.Error = &job.Error{Type: "ValueError", Message: "bad\x1b[2J", Traceback: "Traceback (most recent call last):\n  line 3\nValueError: bad\x1b[2J"}
	case "infra":
		r.Status, r.Error = job.StatusInfraError, &job.Error{Type: "sandbox", Message: "the sandbox did not start"}
	case "second":
		r.Attempt = 2
		r.Attempts = []job.AttemptRecord{
			{Number: 1, Worker: "w0", Backend: "docker", Outcome: "failed", Status: job.StatusInfraError, Error: &job.Error{Type: "backend_error", Message: "gone\x1b[2J"}},
			{Number: 2, Worker: "w1", Backend: "bubblewrap", Outcome: "finished", Status: job.StatusOK},
		}
	case "files":
		r.Artifacts = filesOf(rest)
	case "cut":
		r.Stdout, r.StdoutBytes, r.StdoutTruncated = job.Bytes("abc"), 200_000, true
	case "bytes":
		r.Stdout, r.StdoutBytes = job.Bytes("\xff\x1b[31mred\u202e\n"), 12
	case "hang":
		select {
		case <-stop:
			r.Status, r.Error = job.StatusCancelled, &job.Error{Type: "cancelled", Message: "somebody asked"}
		case <-ctx.Done():
		}
	case "return":
		f.performCall(r, j)
	case "echo":
		r.Value = echo(j)
	}
	return r
}

// echo is the job as the worker got it.
func echo(j *job.Job) jsontext.Value {
	doc, err := j.Encode()
	if err != nil {
		return jsontext.Value(`"does not encode"`)
	}
	return doc
}

func (f *fleet) finish(r *job.Result) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r.Finished = time.Now().UTC()
	f.results[r.Job] = r
	record := f.records[r.Job]
	record.State, record.Status, record.Finished, record.Artifacts = job.StateFinished, r.Status, r.Finished, r.Artifacts
	if r.Status == job.StatusInfraError {
		record.State = job.StateDead
	}
	record.Attempts[0].Outcome, record.Attempts[0].Status, record.Attempts[0].Error = "finished", r.Status, r.Error
}

func (f *fleet) onCancel(_ string, target queue.CancelTarget) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, record := range f.records {
		if id == target.Job || (target.Batch != "" && record.Batch == target.Batch) {
			f.stop(id)
		}
	}
	if !target.Job.IsZero() {
		f.stop(target.Job)
	}
}

func (f *fleet) stop(id job.ID) {
	ch := f.stopOf(id)
	select {
	case <-ch:
	default:
		close(ch)
	}
}

// allEndedAs reports whether each job that was begun ended so.
func (f *fleet) allEndedAs(status job.Status) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id := range f.records {
		if r := f.results[id]; r == nil || r.Status != status {
			return false
		}
	}
	return true
}

// ran is how many jobs were begun, and how many of them more than once.
func (f *fleet) ran() (jobs, again int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.runs {
		if n > 1 {
			again++
		}
	}
	return len(f.runs), again
}
