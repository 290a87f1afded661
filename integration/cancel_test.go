package integration_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"

	"airlock/backends"
	"airlock/backends/fake"
	"airlock/broker"
	"airlock/broker/provider"
	"airlock/job"
	"airlock/queue"
	"airlock/queue/natstest"
	"airlock/store"
	"airlock/store/storetest"
	"airlock/worker"
)

// stages tell which stage a job is in, where it stays until it is let go.
type stages struct {
	reached chan string
	leave   chan struct{}
}

func (s *stages) hold(ctx context.Context, stage string) {
	s.reached <- stage
	select {
	case <-ctx.Done():
	case <-s.leave:
	}
}

// heldLedger is a store that holds a result back which is about to be written.
type heldLedger struct {
	*store.Store
	stages *stages
	on     bool
}

func (l *heldLedger) Finish(ctx context.Context, a *job.Attempt, r *job.Result, linger time.Duration) error {
	if l.on && r.Status == job.StatusOK {
		l.stages.hold(context.Background(), "finishing")
	}
	return l.Store.Finish(ctx, a, r, linger)
}

// crew is a worker of real parts whose guests stop where the job's code says.
type crew struct {
	srv    *natstest.Server
	queue  *queue.Queue
	store  *store.Store
	ledger *heldLedger
	worker *worker.Worker
	stages *stages
	ctx    context.Context
	duties *sync.WaitGroup
}

func newCrew(t *testing.T) *crew {
	t.Helper()
	c := &crew{srv: natstest.Start(t), store: storetest.Open(t), stages: &stages{make(chan string, 1), make(chan struct{})}, duties: &sync.WaitGroup{}}
	nc := c.srv.ConnectAs("worker")
	var err error
	if c.queue, err = queue.Open(t.Context(), nc, queue.Config{}); err != nil {
		t.Fatal(err)
	}
	var stop context.CancelFunc
	c.ctx, stop = context.WithCancel(context.Background())
	t.Cleanup(func() {
		stop()
		c.duties.Wait()
		if err := c.queue.Close(); err != nil {
			t.Error(err)
		}
	})
	catalogue := broker.NewCatalogue(nc, broker.CatalogueConfig{Refresh: 100 * time.Millisecond, OnDemand: 10 * time.Millisecond})
	box := fake.New(fake.Config{Script: c.guest, Isolation: job.IsolationStrong, Limits: job.KernelLimits()})
	can, err := box.Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.ledger = &heldLedger{Store: c.store, stages: c.stages}
	c.worker = worker.New(worker.Config{
		ID: "w1", Ledger: c.ledger, Results: c.queue, Log: zerolog.Nop(),
		Tools:     broker.New(broker.Config{Tools: catalogue, Audit: c.store}),
		Sandboxes: worker.NewSandboxes(worker.Sandbox{Name: fake.Name, Backend: box, Can: can}),
		Cancelled: func(j *job.Job) bool { return c.queue.Cancelled(j.Tenant, j) },
	})
	slow := provider.Tool{
		Name: "slow", Description: "Never answers.", InputSchema: jsontext.Value(`{"type":"object"}`),
		Handler: func(ctx context.Context, _ provider.Call) (any, error) {
			c.stages.reached <- "in a tool call"
			select {
			case <-ctx.Done():
			case <-c.ctx.Done():
			}
			return nil, errors.New("called off")
		},
	}
	tools := c.srv.ConnectAs("provider-" + natstest.Namespace)
	c.duties.Go(func() {
		_ = provider.Serve(c.ctx, tools, provider.Namespace{Name: natstest.Namespace, Tools: []provider.Tool{slow}})
	})
	c.duties.Go(func() { _ = catalogue.Run(c.ctx) })
	c.duties.Go(func() { c.worker.Heartbeat(c.ctx) })
	c.duties.Go(func() { _ = c.queue.Record(c.ctx, c.store.RecordQueued) })
	c.duties.Go(func() {
		_ = c.queue.Cancels(c.ctx, func(string, queue.CancelTarget) {
			c.worker.Cancel(func(j *job.Job) bool { return c.queue.Cancelled(j.Tenant, j) })
		})
	})
	until(t, time.Minute, "the provider's tool", func() bool { return len(catalogue.List(c.ctx, []string{natstest.Namespace})) > 0 })
	return c
}

// work claims jobs until the test ends.
func (c *crew) work(t *testing.T) {
	t.Helper()
	offer := c.offer()
	if err := c.queue.Advertise(c.ctx, queue.Presence{ID: "w1", Host: "h", Started: time.Now(), Slots: 1, Offers: []job.Offer{offer}}); err != nil {
		t.Fatal(err)
	}
	c.duties.Go(func() {
		_ = c.queue.Consume(c.ctx, queue.ConsumerConfig{Slots: 1, Offers: func() []job.Offer { return []job.Offer{offer} }, Handler: c.worker.Handle})
	})
}

func (c *crew) offer() job.Offer {
	return job.Offer{Backend: fake.Name, Version: "1", Isolation: job.IsolationStrong, OS: "linux", Arch: "amd64", Limits: job.KernelLimits()}
}

// guest stops in the stage that its code names, until it is killed or let go.
func (c *crew) guest(ctx context.Context, g *fake.Guest) (backends.Outcome, error) {
	if c.stage(g) == "starting" {
		c.stages.hold(ctx, "starting")
		return backends.Outcome{}, nil
	}
	code, err := g.Hello()
	if err != nil {
		return backends.Outcome{}, nil
	}
	switch code {
	case "running":
		c.stages.hold(ctx, "running")
	case "in a tool call":
		_, _ = g.Calls([]fake.Call{{Namespace: natstest.Namespace, Name: "slow", Arguments: jsontext.Value(`{}`)}})
		<-ctx.Done()
	default:
		if err := g.Return(jsontext.Value("1")); err != nil {
			return backends.Outcome{}, nil
		}
	}
	return backends.Outcome{Cause: backends.Exited}, nil
}

// stage is what stands for the code before the guest has it.
func (c *crew) stage(g *fake.Guest) string {
	if g.Task.Limits.Wall.Std() == startingWall {
		return "starting"
	}
	return ""
}

// startingWall marks the job whose guest never gets to its code.
const startingWall = 17 * time.Second

// cancel asks as submit cancel does: the queue, then a worker's ledger.
func (c *crew) cancel(t *testing.T, target queue.CancelTarget) {
	t.Helper()
	if err := c.queue.Cancel(c.ctx, "default", target); err != nil {
		t.Fatal(err)
	}
	var err error
	if target.Batch != "" {
		_, err = c.store.CancelBatch(c.ctx, "default", target.Batch)
	} else {
		_, err = c.store.Cancel(c.ctx, "default", target.Job)
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		t.Fatal(err)
	}
}

// TestCancelMeetsEachStage: a job and a batch, each asked twice. What has its
// result keeps it; nothing else goes on; and the queue is empty in the end.
func TestCancelMeetsEachStage(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		stage string
		want  job.Status
	}{
		{"postponed", job.StatusCancelled},
		{"queued", job.StatusCancelled},
		{"starting", job.StatusCancelled},
		{"running", job.StatusCancelled},
		{"in a tool call", job.StatusCancelled},
		{"finishing", job.StatusOK},
		{"finished", job.StatusOK},
	} {
		for _, batch := range []string{"", "b1"} {
			t.Run(tc.stage+map[string]string{"": ", one job", "b1": ", a batch"}[batch], func(t *testing.T) {
				t.Parallel()
				cancelIn(t, tc.stage, batch, tc.want)
			})
		}
	}
}

func cancelIn(t *testing.T, stage, batch string, want job.Status) {
	c := newCrew(t)
	c.ledger.on = stage == "finishing"
	j := &job.Job{Code: stage, Batch: batch, Tools: []job.Grant{{Namespace: natstest.Namespace, Name: job.AnyTool}}}
	switch stage {
	case "starting":
		j.Limits.Wall = job.Duration(startingWall)
	case "postponed":
		j.NotBefore = time.Now().Add(time.Hour)
	}
	if err := j.Prepare(time.Now()); err != nil {
		t.Fatal(err)
	}
	if stage != "queued" {
		c.work(t)
	}
	if _, err := c.queue.Submit(c.ctx, j, queue.SubmitOptions{Park: true}); err != nil {
		t.Fatal(err)
	}
	state := func() (job.Record, error) { return c.store.Job(c.ctx, "default", j.ID) }
	switch stage {
	case "postponed", "queued", "finished":
		in := map[string]job.State{"postponed": job.StateRetryWait, "queued": job.StateQueued, "finished": job.StateFinished}[stage]
		until(t, time.Minute, "the job "+stage, func() bool { r, err := state(); return err == nil && r.State == in })
	default:
		select {
		case got := <-c.stages.reached:
			if got != stage {
				t.Fatalf("got the job %s, want it %s", got, stage)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("the job never was %s", stage)
		}
	}
	target := queue.CancelTarget{Job: j.ID}
	if batch != "" {
		target = queue.CancelTarget{Batch: batch}
	}
	asked := time.Now()
	c.cancel(t, target)
	c.cancel(t, target)
	if stage == "finishing" {
		close(c.stages.leave)
	}
	var ended job.Record
	until(t, time.Minute, "the job's end", func() bool { r, err := state(); ended = r; return err == nil && r.State.Ended() })
	t.Logf("ended %s after it was asked", time.Since(asked).Round(time.Millisecond))
	if ended.Status != want || ended.State != job.StateFinished {
		t.Errorf("got %s as %s, want it finished as %s", ended.State, ended.Status, want)
	}
	c.cancel(t, target)
	if stage == "queued" {
		c.work(t) // finds a message of a job that has ended
	}
	until(t, time.Minute, "the queue empty", func() bool { stock, err := c.queue.Stock(c.ctx); return err == nil && len(stock) == 0 })
	again, err := state()
	if err != nil || again.Status != ended.Status || !slices.EqualFunc(again.Attempts, ended.Attempts, sameAttempt) {
		t.Errorf("got %+v, %v after another cancel, want nothing changed from %+v", again, err, ended)
	}
}

func sameAttempt(a, b job.AttemptRecord) bool { return a.Number == b.Number && a.Status == b.Status }

// TestCancelOfARunningJobIsQuick prints how long it takes, from the request to
// the result in the database. It fails only if it does not happen.
func TestCancelOfARunningJobIsQuick(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	c.work(t)
	const jobs = 100
	took := make([]time.Duration, jobs)
	for n := range took {
		j := &job.Job{Code: "running"}
		if err := j.Prepare(time.Now()); err != nil {
			t.Fatal(err)
		}
		if _, err := c.queue.Submit(c.ctx, j, queue.SubmitOptions{Park: true}); err != nil {
			t.Fatal(err)
		}
		<-c.stages.reached
		asked := time.Now()
		c.cancel(t, queue.CancelTarget{Job: j.ID})
		until(t, time.Minute, "the job's end", func() bool {
			r, err := c.store.Job(c.ctx, "default", j.ID)
			if err == nil && r.State.Ended() {
				took[n] = r.Finished.Sub(asked)
				return r.Status == job.StatusCancelled
			}
			return false
		})
	}
	slices.Sort(took)
	t.Logf("a running job is cancelled within p50 %s, p99 %s (goal: p99 500ms)", took[jobs/2].Round(time.Millisecond), took[jobs*99/100].Round(time.Millisecond))
}
