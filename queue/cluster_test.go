package queue_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"airlock/queue"
	"airlock/queue/natstest"
)

// replicas says of each stream of the queue how many servers hold it.
func replicas(t *testing.T, url string, want int) map[string]int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	nc, err := queue.Connect(ctx, url, "test", zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	q, err := queue.Open(ctx, nc, queue.Config{Replicas: want})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { q.Close() })
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	streams := js.ListStreams(ctx)
	for info := range streams.Info() {
		got[info.Config.Name] = info.Config.Replicas
	}
	if err := streams.Err(); err != nil {
		t.Fatal(err)
	}
	return got
}

func each(count int) map[string]int {
	all := map[string]int{}
	for _, name := range []string{"JOBS", "QUEUED", "RESULTS", "KV_LANES", "KV_WORKERS", "KV_CANCELS", "KV_KEYS", "BLOBS", "OUTPUTS"} {
		all[name] = count
	}
	return all
}

func TestReplicasFollowTheCluster(t *testing.T) {
	t.Parallel()
	single := natstest.Start(t).URLOf("admin")
	// Not waited for: workers may start before the cluster has a leader.
	three := natstest.StartCluster(t, 3)
	for _, tc := range []struct {
		name, url  string
		ask, holds int
	}{
		{"one server", single, 0, 1},
		{"a cluster", three, 0, 3},
		{"a cluster, one asked for", three, 1, 1},
		{"a cluster that held one", three, 0, 3},
	} {
		if diff := cmp.Diff(each(tc.holds), replicas(t, tc.url, tc.ask)); diff != "" {
			t.Errorf("%s: replicas (-want +got):\n%s", tc.name, diff)
		}
	}
}

func TestMoreReplicasThanServersAreRefused(t *testing.T) {
	t.Parallel()
	nc := natstest.Start(t).Connect()
	if q, err := queue.Open(t.Context(), nc, queue.Config{Replicas: 3}); err == nil {
		q.Close()
		t.Error("one server took three replicas")
	}
}

// TestAServerThatAnswersNothingIsLeft has a server that keeps its clients and
// has lost the queue, as one that is cut off from its cluster has.
func TestAServerThatAnswersNothingIsLeft(t *testing.T) {
	t.Parallel()
	mute, healthy := natstest.Start(t), natstest.Start(t)
	for _, s := range []*natstest.Server{mute, healthy} {
		q, err := queue.Open(t.Context(), s.Connect(), queue.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer q.Close()
	}
	// Only one of the two is there to connect to.
	healthy.Stop()
	nc, err := queue.Connect(t.Context(), mute.URLOf("admin")+","+healthy.URLOf("admin"), "test", zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	q, err := queue.Attach(t.Context(), nc, queue.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	healthy.Resume()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteStream(t.Context(), "JOBS"); err != nil {
		t.Fatal(err)
	}
	if _, err := q.Submit(t.Context(), newJob(t, nil), queue.SubmitOptions{Park: true}); err != nil {
		t.Errorf("submit: %v", err)
	}
	if got := healthy.Messages("JOBS"); got != 1 {
		t.Errorf("jobs at the healthy server: got %d, want 1", got)
	}
}
