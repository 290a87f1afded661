package queue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"airlock/job"
	"airlock/queue"
	"airlock/queue/natstest"
)

func newResult(tenant, batch string, change func(r *job.Result)) *job.Result {
	r := &job.Result{
		Job: job.NewID(), Tenant: tenant, Batch: batch, Status: job.StatusOK,
		Attempt: 1, Finished: time.Now().UTC(),
	}
	if change != nil {
		change(r)
	}
	return r
}

// follow opens a stream of results that ends with the test.
func follow(t *testing.T, q *queue.Queue, tenant, batch string, id job.ID) *queue.Results {
	t.Helper()
	results, err := q.Results(testContext(t), tenant, batch, id)
	if err != nil {
		t.Fatalf("open results: %v", err)
	}
	t.Cleanup(results.Stop)
	return results
}

func next(t *testing.T, results *queue.Results) *job.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := results.Next(ctx)
	if err != nil {
		t.Fatalf("next result: %v", err)
	}
	return r
}

func TestResultsArriveAsAnnounced(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{})
	code := 3
	for name, want := range map[string]*job.Result{
		"plain": newResult("a", "b", nil),
		"hostile bytes": newResult("a", "", func(r *job.Result) {
			r.Status, r.ExitCode, r.Signal = job.StatusGuestError, &code, "SIGSEGV"
			r.Stdout, r.Stderr = job.Bytes("\x00\xff\xed\xa0\x80\n"), job.Bytes("\u202e\x1b[2J")
			r.Value = []byte(`{"big":1152921504606846977,"nul":"\u0000","deep":` + strings.Repeat("[", 60) + strings.Repeat("]", 60) + `}`)
			r.Error = &job.Error{Type: "E", Message: "a\x00b", Traceback: "line 3"}
		}),
		"3 MiB": newResult("a", "b", func(r *job.Result) { r.Stdout = job.Bytes(strings.Repeat("x", 3<<20)) }),
	} {
		t.Run(name, func(t *testing.T) {
			results := follow(t, attachAs(t, srv, "a"), "a", "", want.Job)
			must(t, q.Announce(testContext(t), want))
			if diff := cmp.Diff(want, next(t, results), wholeBytes); diff != "" {
				t.Errorf("result differs (-want +got):\n%.2000s", diff)
			}
		})
	}
}

func TestHugeOutputIsCutNotLost(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{})
	// A NUL takes six characters in JSON.
	huge := newResult("a", "", func(r *job.Result) {
		r.Stdout = make(job.Bytes, 16*job.MiB)
		r.StdoutBytes = int64(16 * job.MiB)
	})
	must(t, q.Announce(testContext(t), huge))
	got := next(t, follow(t, attachAs(t, srv, "a"), "a", "", huge.Job))
	if !got.StdoutTruncated || len(got.Stdout) == 0 || got.StdoutBytes != huge.StdoutBytes {
		t.Errorf("got %d of %d bytes, truncated %v; want some, all counted, truncated", len(got.Stdout), got.StdoutBytes, got.StdoutTruncated)
	}
}

func TestResultsReplayAndNarrow(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{})
	submitter := attachAs(t, srv, "a")
	ab1, ab2, ab3 := newResult("a", "b", nil), newResult("a", "b", nil), newResult("a", "b", nil)
	ac, none, other := newResult("a", "c", nil), newResult("a", "", nil), newResult("z", "b", nil)
	for _, r := range []*job.Result{ab1, other, ac, ab2, none} {
		must(t, q.Announce(testContext(t), r))
		must(t, q.Announce(testContext(t), r)) // twice is once
	}
	batch := follow(t, submitter, "a", "b", job.ID{})
	single := follow(t, submitter, "a", "", none.Job)
	whole := follow(t, submitter, "a", "", job.ID{})
	must(t, q.Announce(testContext(t), ab3))
	for _, c := range []struct {
		name    string
		results *queue.Results
		want    []*job.Result
	}{
		{"batch", batch, []*job.Result{ab1, ab2, ab3}},
		{"job", single, []*job.Result{none}},
		{"tenant", whole, []*job.Result{ab1, ac, ab2, none, ab3}},
	} {
		for i, want := range c.want {
			if got := next(t, c.results); got.Job != want.Job {
				t.Errorf("%s: result %d is of %s, want %s", c.name, i, got.Job, want.Job)
			}
		}
	}
}

// A job that was requeued has a second result soon after the first.
func TestSecondAttemptsResultIsAnnounced(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{})
	first := newResult("a", "b", func(r *job.Result) { r.Status = job.StatusInfraError })
	results := follow(t, attachAs(t, srv, "a"), "a", "b", job.ID{})
	must(t, q.Announce(testContext(t), first))
	if got := next(t, results); got.Status != job.StatusInfraError {
		t.Errorf("got status %s, want %s", got.Status, job.StatusInfraError)
	}
	second := *first
	second.Status, second.Attempt = job.StatusOK, 2
	must(t, q.Announce(testContext(t), &second))
	if got := next(t, results); got.Status != job.StatusOK || got.Attempt != 2 {
		t.Errorf("got status %s of attempt %d, want ok of 2", got.Status, got.Attempt)
	}
	if got := next(t, follow(t, attachAs(t, srv, "a"), "a", "b", job.ID{})); got.Attempt != 2 {
		t.Errorf("replay begins with attempt %d, want only 2", got.Attempt)
	}
}

func TestResultsSurviveRestart(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{})
	results := follow(t, attachAs(t, srv, "a"), "a", "b", job.ID{})
	var want []job.ID
	for range 5 {
		r := newResult("a", "b", nil)
		want = append(want, r.Job)
		must(t, q.Announce(testContext(t), r))
	}
	var got []job.ID
	for range 3 {
		got = append(got, next(t, results).Job)
	}
	srv.Restart()
	r := newResult("a", "b", nil)
	want = append(want, r.Job)
	must(t, q.Announce(testContext(t), r))
	for range 3 {
		got = append(got, next(t, results).Job)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("results over a restart (-want +got):\n%s", diff)
	}
}

func TestResultsEnd(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	open(t, srv, queue.Config{})
	results := follow(t, attachAs(t, srv, "a"), "a", "b", job.ID{})
	ctx, cancel := context.WithCancelCause(context.Background())
	because := errors.New("because")
	cancel(because)
	if _, err := results.Next(ctx); !errors.Is(err, because) {
		t.Errorf("got error %v, want the context's cause", err)
	}
	ended := make(chan error)
	go func() {
		_, err := results.Next(context.Background())
		ended <- err
	}()
	results.Stop()
	if err := <-ended; !errors.Is(err, queue.ErrClosed) {
		t.Errorf("got error %v after Stop, want ErrClosed", err)
	}
	results.Stop()
}

// A server has a thousand consumers to a stream; a waiter must not leave his
// behind.
func TestStopFreesTheServersConsumer(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{})
	for range 5 {
		results := follow(t, attachAs(t, srv, "a"), "a", "b", job.ID{})
		must(t, q.Announce(testContext(t), newResult("a", "b", nil)))
		next(t, results)
		results.Stop()
	}
	js, err := jetstream.New(srv.Connect())
	must(t, err)
	stream, err := js.Stream(testContext(t), "RESULTS")
	must(t, err)
	waitFor(t, "stream without consumers", func() bool {
		info, err := stream.Info(testContext(t))
		must(t, err)
		return info.State.Consumers == 0
	})
}

func TestForeignResultsAreSkipped(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{})
	nc := srv.Connect()
	real := newResult("a", "b", nil)
	for subject, body := range map[string]string{
		"results.a.b." + job.NewID().String(): "no json",
		"results.a.b.x":                       `{}`,
		"results.a.b." + real.Job.String():    fmt.Sprintf(`{"job":%q,"tenant":"z","batch":"b","status":"ok"}`, real.Job),
	} {
		publishRaw(t, nc, subject, body, nil)
	}
	must(t, q.Announce(testContext(t), real))
	if got := next(t, follow(t, attachAs(t, srv, "a"), "a", "b", job.ID{})); got.Job != real.Job {
		t.Errorf("got result of %s, want %s", got.Job, real.Job)
	}
}

func TestResultsRefuseWildcards(t *testing.T) {
	t.Parallel()
	q := open(t, natstest.Start(t), queue.Config{})
	for _, c := range []struct{ tenant, batch string }{{"*", ""}, {">", ""}, {"a.b", ""}, {"", ""}, {"a", "*"}, {"a", "b c"}, {"a", "_"}} {
		if _, err := q.Results(testContext(t), c.tenant, c.batch, job.ID{}); err == nil {
			t.Errorf("got no error for results of tenant %q batch %q", c.tenant, c.batch)
		}
		if err := q.Announce(testContext(t), newResult(c.tenant, c.batch, nil)); err == nil && c.batch != "" {
			t.Errorf("got no error for announcing to tenant %q batch %q", c.tenant, c.batch)
		}
	}
}
