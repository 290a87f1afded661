package queue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"airlock/job"
	"airlock/queue"
	"airlock/queue/natstest"
)

// bounds reads back what each stream may take.
func bounds(t testing.TB, srv *natstest.Server) map[string]int64 {
	t.Helper()
	js, err := jetstream.New(srv.Connect())
	must(t, err)
	all := map[string]int64{}
	list := js.ListStreams(testContext(t))
	for info := range list.Info() {
		all[info.Config.Name] = info.Config.MaxBytes
	}
	must(t, list.Err())
	return all
}

// TestStreamsFitTheServersStore: together they may take no more than it has,
// each has some, and a worker that comes later changes nothing.
func TestStreamsFitTheServersStore(t *testing.T) {
	t.Parallel()
	for _, store := range []job.Size{8 * job.MiB, 100 * job.MiB, 500 * job.GiB} {
		t.Run(store.String(), func(t *testing.T) {
			t.Parallel()
			srv := natstest.StartSmall(t, store)
			open(t, srv, queue.Config{})
			got := bounds(t, srv)
			sum := int64(0)
			for name, most := range got {
				if sum += most; most <= 0 {
					t.Errorf("stream %s: got %d bytes, want a bound", name, most)
				}
			}
			if sum > int64(store) || got["JOBS"] < min(int64(store)/8, int64(16*job.GiB)) {
				t.Errorf("got %v, %d in all: want no more than %d, and an eighth for JOBS", got, sum, int64(store))
			}
			open(t, srv, queue.Config{})
			if again := bounds(t, srv); fmt.Sprint(again) != fmt.Sprint(got) {
				t.Errorf("got %v after another worker, want %v", again, got)
			}
		})
	}
}

// TestStreamsWithoutABoundGetOne: those that somebody made, or changed, by hand.
func TestStreamsWithoutABoundGetOne(t *testing.T) {
	t.Parallel()
	srv := natstest.StartSmall(t, 100*job.MiB)
	open(t, srv, queue.Config{})
	js, err := jetstream.New(srv.Connect())
	must(t, err)
	list := js.ListStreams(testContext(t))
	for info := range list.Info() {
		info.Config.MaxBytes = -1
		_, err := js.UpdateStream(testContext(t), info.Config)
		must(t, err)
	}
	must(t, list.Err())
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	q, err := queue.Open(ctx, srv.ConnectAs("worker"), queue.Config{Log: testLog(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { must(t, q.Close()) })
	for name, most := range bounds(t, srv) {
		if most <= 0 {
			t.Errorf("stream %s: got %d bytes, want a bound", name, most)
		}
	}
}

// TestAnAskedForSizeIsKept: by the worker that was told, and those that were
// not; and refused where the server has less.
func TestAnAskedForSizeIsKept(t *testing.T) {
	t.Parallel()
	srv := natstest.StartSmall(t, 100*job.MiB)
	open(t, srv, queue.Config{})
	open(t, srv, queue.Config{MaxBytes: int64(4 * job.MiB)})
	open(t, srv, queue.Config{})
	if got := bounds(t, srv)["JOBS"]; got != int64(4*job.MiB) {
		t.Errorf("got %d, want the 4 MiB that were asked for", got)
	}
	_, err := queue.Open(testContext(t), srv.ConnectAs("worker"), queue.Config{MaxBytes: int64(job.GiB)})
	if err == nil || !strings.Contains(err.Error(), "--queue-size") {
		t.Errorf("got %v for 1 GiB of a store of 100 MiB, want what to do", err)
	}
}

// TestAFullStoreLosesNothing: into a server of 8 MiB more is submitted than it
// holds, in messages and blobs, while nobody works. The submitter hears of a
// full queue, with numbers; results and presence have room; then all that was
// accepted is run once, and there is room again.
func TestAFullStoreLosesNothing(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		size int
	}{{"in messages", 20_000}, {"in blobs", 700_000}} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			fillAndDrain(t, tc.size)
		})
	}
}

func fillAndDrain(t *testing.T, size int) {
	srv := natstest.StartSmall(t, 8*job.MiB)
	q := open(t, srv, queue.Config{})
	submitter := attach(t, srv)
	for round := range 2 {
		accepted, err := fill(t, submitter, size)
		var full *queue.FullError
		if !errors.Is(err, queue.ErrQueueFull) || size < 100_000 && (!errors.As(err, &full) || full.Jobs != int64(len(accepted)) || full.MaxSize < job.MiB) {
			t.Fatalf("got %v after %d jobs, want a *FullError with their number", err, len(accepted))
		}
		if len(accepted) < 2 {
			t.Fatalf("round %d: got %d jobs accepted, want some", round, len(accepted))
		}
		must(t, q.Advertise(testContext(t), presence("w1", offer("bubblewrap"))))
		must(t, q.Announce(testContext(t), &job.Result{Job: job.NewID(), Tenant: "default", Status: job.StatusOK}))
		var mu sync.Mutex
		ran := map[job.ID]int{}
		w := work(t, q, 2, func(ctx context.Context, d job.Delivery) {
			mu.Lock()
			ran[d.Job.ID]++
			mu.Unlock()
			// A large result each: they make way for one another.
			result := &job.Result{Job: d.Job.ID, Tenant: "default", Status: job.StatusOK, Stdout: job.Bytes(strings.Repeat("x", size))}
			must(t, q.Announce(ctx, result))
			must(t, d.Ack(ctx))
			if d.Forget != nil {
				must(t, d.Forget(ctx))
			}
		}, offer("bubblewrap"))
		waitEmpty(t, q)
		w.end()
		mu.Lock()
		for _, id := range accepted {
			if ran[id] != 1 {
				t.Errorf("round %d: job %s ran %d times, want once", round, id, ran[id])
			}
		}
		mu.Unlock()
	}
}

// fill submits until the queue is full.
func fill(t *testing.T, q *queue.Queue, size int) (accepted []job.ID, err error) {
	for len(accepted) < 2_000 {
		j := newJob(t, func(j *job.Job) { j.Code = strings.Repeat("#", size) })
		if _, err = q.Submit(testContext(t), j, queue.SubmitOptions{Park: true}); err != nil {
			return accepted, err
		}
		accepted = append(accepted, j.ID)
	}
	return accepted, nil
}
