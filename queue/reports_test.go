package queue_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"airlock/job"
	"airlock/queue"
	"airlock/queue/natstest"
)

// The tests of this file act out what users of queues like this one reported.
// Their numbers are those of integration/index_test.go.

// consumersOf reads back what the server has.
func consumersOf(t testing.TB, nc *nats.Conn, stream string) (all []*jetstream.ConsumerInfo) {
	t.Helper()
	js, err := jetstream.New(nc)
	must(t, err)
	s, err := js.Stream(testContext(t), stream)
	must(t, err)
	list := s.ListConsumers(testContext(t))
	for info := range list.Info() {
		all = append(all, info)
	}
	must(t, list.Err())
	return all
}

// F1, F2: workers of one lane share its consumers, lanes do not overlap, and
// the server lets nobody add a consumer that would take the jobs of another.
func TestF1ConsumersDoNotOverlap(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{})
	other := newJob(t, func(j *job.Job) { j.Requires.Backends = []string{"bubblewrap", "docker"} })
	submit(t, q, newJob(t, nil))
	submit(t, q, other)
	for range 3 {
		work(t, open(t, srv, queue.Config{}), 1, nil, offer("bubblewrap"))
	}
	waitEmpty(t, q)
	nc := srv.Connect()
	filters := map[string]bool{}
	for _, info := range consumersOf(t, nc, "JOBS") {
		if info.Config.FilterSubject == "" || filters[info.Config.FilterSubject] || len(info.Config.FilterSubjects) > 0 {
			t.Errorf("consumer %s filters %q, which is nothing or another's too", info.Name, info.Config.FilterSubject)
		}
		filters[info.Config.FilterSubject] = true
	}
	if len(filters) != 2 {
		t.Errorf("got %d consumers for two lanes in which one tenant has jobs of one priority: %v", len(filters), filters)
	}
	js, err := jetstream.New(nc)
	must(t, err)
	_, err = js.CreateConsumer(testContext(t), "JOBS", jetstream.ConsumerConfig{Durable: "wide", FilterSubject: "jobs.>", AckPolicy: jetstream.AckExplicitPolicy})
	if err == nil {
		t.Error("the server took a consumer that overlaps all lanes")
	}
}

// F3, F9, F11, F12, F24: what the server has is what was asked for: a filter, no
// BackOff (which would bend the delays of deliveries given back), no end of
// deliveries, and nothing in the stream that lets old jobs make way for new.
func TestF3ServerHasWhatWasAskedFor(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{})
	submit(t, q, newJob(t, nil))
	work(t, q, 1, nil, offer("bubblewrap"))
	waitEmpty(t, q)
	for _, info := range consumersOf(t, srv.Connect(), "JOBS") {
		c := info.Config
		if len(c.BackOff) > 0 || c.MaxDeliver != -1 || c.AckWait != job.AckWait || c.AckPolicy != jetstream.AckExplicitPolicy || c.FilterSubject == "" {
			t.Errorf("consumer %s: got %+v", info.Name, c)
		}
	}
	js, err := jetstream.New(srv.Connect())
	must(t, err)
	s, err := js.Stream(testContext(t), "JOBS")
	must(t, err)
	cfg := s.CachedInfo().Config
	if cfg.Discard != jetstream.DiscardNew || !cfg.DiscardNewPerSubject || cfg.MaxAge != 0 || cfg.AllowMsgTTL || cfg.Retention != jetstream.WorkQueuePolicy {
		t.Errorf("stream JOBS: got %+v", cfg)
	}
}

// F4, F5, F6: a job that no worker ever acknowledges is neither dropped nor
// hidden after any number of deliveries; on three servers too.
func TestF4NothingIsLeftUndelivered(t *testing.T) {
	t.Parallel()
	const jobs, stubborn, deliveries = 30, 10, 4
	urls := natstest.StartCluster(t, 3)
	nc, err := queue.Connect(testContext(t), urls, "test", testLog(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	q, err := queue.Open(testContext(t), nc, queue.Config{Log: testLog(t), AckWait: 500 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { must(t, q.Close()) })
	refused := map[job.ID]int{}
	for n := range jobs {
		j := newJob(t, nil)
		submit(t, q, j)
		if n%(jobs/stubborn) == 0 {
			refused[j.ID] = 0
		}
	}
	var mu sync.Mutex
	work(t, q, 4, func(ctx context.Context, d job.Delivery) {
		mu.Lock()
		count, hard := refused[d.Job.ID]
		refused[d.Job.ID] = count + 1
		mu.Unlock()
		if !hard || count >= deliveries {
			must(t, d.Ack(ctx))
		}
	}, offer("bubblewrap"))
	waitEmpty(t, q)
	mu.Lock()
	defer mu.Unlock()
	if len(refused) != jobs {
		t.Errorf("%d of %d jobs arrived", len(refused), jobs)
	}
}

// F7, F8, F10: a job that is put into the queue again after it was acknowledged
// arrives, although the queue still remembers its first message.
func TestF7RequeueIsNotSwallowed(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{})
	w := work(t, q, 1, nil, offer("bubblewrap"))
	j := newJob(t, nil)
	submit(t, q, j)
	w.wait(1)
	waitEmpty(t, q)
	submit(t, q, j) // swallowed, as a retry of the first publish is
	for generation := 2; generation <= 3; generation++ {
		r := job.Republish{Job: j, Generation: generation, Reason: "test"}
		must(t, q.Republish(testContext(t), r))
		must(t, q.Republish(testContext(t), r)) // swallowed
		got := w.wait(generation)
		if last := got[len(got)-1]; len(got) != generation || last.Job.ID != j.ID || last.Generation != generation {
			t.Fatalf("got %d deliveries, the last of generation %d; want %d", len(got), last.Generation, generation)
		}
	}
	waitEmpty(t, q)
	if got := len(w.deliveries()); got != 3 {
		t.Errorf("got %d deliveries, want one per generation", got)
	}
}

// F14, F15: the queue goes by the message and not by who holds it: what a worker
// without its lease says takes the job from whoever has it, and the holder's
// own acknowledgement then says nothing of it. This is why such a worker is
// silent (TestALostLeaseLeavesNoTrace) and why the fence is in Postgres. If the
// server ever learns to tell them apart, this test says so.
func TestF14StaleAcknowledgementsActOnTheHolder(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	cfg := queue.Config{AckWait: 300 * time.Millisecond}
	q := open(t, srv, cfg)
	submit(t, q, newJob(t, nil))
	first := work(t, q, 1, func(context.Context, job.Delivery) {}, offer("bubblewrap"))
	stale := first.wait(1)[0]
	first.end()
	release := make(chan struct{})
	held := make(chan error, 1)
	second := work(t, open(t, srv, cfg), 1, func(ctx context.Context, d job.Delivery) {
		must(t, d.KeepAlive())
		<-release
		held <- d.Ack(ctx)
	}, offer("bubblewrap"))
	second.wait(1)
	must(t, stale.Ack(testContext(t)))
	if got := srv.Messages("JOBS"); got != 0 {
		t.Errorf("JOBS holds %d messages after a stale acknowledgement: the server tells holders apart now", got)
	}
	close(release)
	if err := <-held; err != nil {
		t.Errorf("the holder's acknowledgement: got %v, want none", err)
	}
}

// F13: a delivery given back in a row, as in an outage of the database, comes
// back after its pause each time, and is not used up.
func TestF13DeliveriesAreNotUsedUp(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{})
	submit(t, q, newJob(t, nil))
	const given = 12
	var mu sync.Mutex
	count := 0
	w := work(t, q, 1, func(ctx context.Context, d job.Delivery) {
		mu.Lock()
		count++
		last := count > given
		mu.Unlock()
		if last {
			must(t, d.Ack(ctx))
			return
		}
		must(t, d.Later(10*time.Millisecond))
	}, offer("bubblewrap"))
	w.wait(given + 1)
	waitEmpty(t, q)
}

// F20, F22, F23: a worker whose every handler is slow has no more deliveries in
// its hands than slots, so that when it stops the others get the rest at once
// and not after the queue's patience.
func TestF22AStoppedWorkerHoldsNothingBack(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{})
	const jobs = 40
	for range jobs {
		submit(t, q, newJob(t, nil))
	}
	release := make(chan struct{})
	slow := work(t, q, 2, func(ctx context.Context, d job.Delivery) {
		<-release
		must(t, d.Ack(ctx))
	}, offer("bubblewrap"))
	slow.wait(2)
	if _, running := total(t, q); running != 2 {
		t.Errorf("%d jobs are delivered to a worker of two slots", running)
	}
	slow.stop()
	next := work(t, open(t, srv, queue.Config{}), 4, nil, offer("bubblewrap"))
	next.wait(jobs - 2)
	close(release)
	slow.end()
	waitEmpty(t, q)
	seen := map[job.ID]int{}
	for _, d := range append(slow.deliveries(), next.deliveries()...) {
		if seen[d.Job.ID]++; seen[d.Job.ID] > 1 {
			t.Errorf("job %s was delivered twice", d.Job.ID)
		}
	}
	if len(seen) != jobs {
		t.Errorf("got %d jobs, want %d", len(seen), jobs)
	}
}

// A worker that is frozen is a member of the group that answers submitters, for
// as long as the server takes to notice. It must not take their questions with
// it.
func TestAFrozenWorkerIsAskedOnce(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	open(t, srv, queue.Config{})
	frozen := srv.ConnectAs("worker")
	if _, err := frozen.QueueSubscribe("fleet.*.*", "fleet", func(*nats.Msg) {}); err != nil {
		t.Fatal(err)
	}
	must(t, frozen.Flush())
	q := attach(t, srv)
	for n := range 5 {
		submit(t, q, newJob(t, func(j *job.Job) { j.Requires.Labels = map[string]string{"lane": string(rune('a' + n))} }))
	}
}
