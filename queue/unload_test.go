package queue_test

import (
	"context"
	"errors"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"airlock/job"
	"airlock/queue"
	"airlock/queue/natstest"
)

// TestUnloadTakesOutWhatNeedsNoRun: of a lane that nobody serves, from all
// tenants and priorities, and leaves the rest for who comes.
func TestUnloadTakesOutWhatNeedsNoRun(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{})
	void, keep := map[job.ID]bool{}, map[job.ID]bool{}
	for i := range 250 {
		j := newJob(t, func(j *job.Job) {
			j.Requires.Backends = []string{"wasm"}
			if i%3 == 0 {
				j.Tenant, j.Priority = "other", job.PriorityLow
			}
		})
		submit(t, q, j)
		if i%5 == 0 {
			keep[j.ID] = true
		} else {
			void[j.ID] = true
		}
	}
	other := newJob(t, nil) // of another lane
	submit(t, q, other)
	void[other.ID] = true
	publishRaw(t, srv.ConnectAs("submitter-default"), "jobs.wasm.normal.default", "{", nil)

	away := errors.New("the ledger is away")
	if n, err := q.Unload(testContext(t), "docker", nil); n != 0 || err != nil {
		t.Errorf("a lane without jobs: got %d, %v, want none", n, err)
	}
	n, err := q.Unload(testContext(t), "wasm", func(_ context.Context, jobs []job.Queued) ([]bool, error) {
		dead := make([]bool, len(jobs))
		for i, j := range jobs {
			if j.Generation != 1 {
				t.Errorf("got generation %d, want 1", j.Generation)
			}
			dead[i] = void[j.Job.ID]
		}
		return dead, nil
	})
	must(t, err)
	if n != 201 {
		t.Errorf("got %d taken out, want 200 and the malformed one", n)
	}
	stock, err := q.Stock(testContext(t))
	must(t, err)
	if stock["wasm"] != 50 || stock["any"] != 1 {
		t.Errorf("got %v left, want 50 and that of the other lane", stock)
	}
	// A ledger that does not answer voids nothing.
	submit(t, q, newJob(t, func(j *job.Job) { j.Requires.Backends = []string{"wasm"} }))
	if _, err := q.Unload(testContext(t), "wasm", func(context.Context, []job.Queued) ([]bool, error) { return nil, away }); !errors.Is(err, away) {
		t.Errorf("got %v, want %v", err, away)
	}
	js, err := jetstream.New(srv.Connect())
	must(t, err)
	info, err := js.Stream(testContext(t), "JOBS")
	must(t, err)
	if got := info.CachedInfo().State.Msgs; got != 52 {
		t.Errorf("got %d messages left, want 52", got)
	}
}
