package queue_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"airlock/job"
	"airlock/queue"
	"airlock/queue/natstest"
)

func TestDeliversWhatWasSubmitted(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{})
	w := work(t, q, 2, nil, offer("bubblewrap"))
	want := newJob(t, func(j *job.Job) {
		j.Batch, j.Key, j.Labels = "b1", "k1", map[string]string{"a": "b"}
		j.Stdin, j.Code = job.Bytes("\x00\xff\xfe"), "print('ä\\u0000')"
		j.Vars = []byte(`{"big":1152921504606846977,"nul":"\u0000"}`)
	})
	submit(t, q, want)
	got := w.wait(1)[0]
	if diff := cmp.Diff(want, got.Job); diff != "" {
		t.Errorf("delivered job differs (-want +got):\n%s", diff)
	}
	if got.Generation != 1 {
		t.Errorf("got generation %d, want 1", got.Generation)
	}
	if age := time.Since(got.Queued); age < -time.Second || age > time.Minute {
		t.Errorf("got queued %s ago, want just now", age)
	}
	waitEmpty(t, q)
}

func TestLanes(t *testing.T) {
	t.Parallel()
	backends := func(names ...string) func(*job.Job) {
		return func(j *job.Job) { j.Requires.Backends = names }
	}
	for _, c := range []struct {
		name  string
		job   func(*job.Job)
		lane  string
		serve []string // the workers among bubblewrap, docker and wasm that may get it
	}{
		{"anything", nil, "any", []string{"bubblewrap", "docker", "wasm"}},
		{"one backend", backends("docker"), "docker", []string{"docker"}},
		{"either of two", backends("docker", "bubblewrap"), "bubblewrap+docker", []string{"bubblewrap", "docker"}},
		{"either of two, other order", backends("bubblewrap", "docker", "docker"), "bubblewrap+docker", []string{"bubblewrap", "docker"}},
		{"something else", func(j *job.Job) { j.Requires.Labels = map[string]string{"gpu": "no"} }, "", []string{"wasm"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			srv := natstest.Start(t)
			q := open(t, srv, queue.Config{})
			const jobs = 12
			for range jobs {
				receipt := submit(t, q, newJob(t, c.job))
				if c.lane != "" && receipt.Lane != c.lane {
					t.Errorf("got lane %q, want %q", receipt.Lane, c.lane)
				}
			}
			labelled := offer("wasm")
			labelled.Labels = map[string]string{"gpu": "no"}
			workers := map[string]*worker{
				"bubblewrap": work(t, q, 1, nil, offer("bubblewrap")),
				"docker":     work(t, q, 1, nil, offer("docker")),
				"wasm":       work(t, q, 1, nil, labelled),
			}
			waitEmpty(t, q)
			sum := 0
			for _, name := range c.serve {
				sum += len(workers[name].deliveries())
			}
			if sum != jobs {
				t.Errorf("got %d jobs at %v, want all %d", sum, c.serve, jobs)
			}
		})
	}
}

func TestWorkerJoinsAndLeavesLanes(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{})
	submitter := attach(t, srv)
	w := work(t, q, 1, nil, offer("bubblewrap"))
	submit(t, submitter, newJob(t, nil))
	w.wait(1)

	// A lane that appears while the worker runs.
	submit(t, submitter, newJob(t, func(j *job.Job) { j.Requires.Backends = []string{"bubblewrap", "docker"} }))
	w.wait(2)

	// A backend that stops passing its probe, and comes back.
	w.note(func() { w.offers = nil })
	waitFor(t, "leaving of lanes", func() bool { return srv.Subscriptions("bell.") == 0 })
	submit(t, submitter, newJob(t, nil))
	if got := len(w.deliveries()); got != 2 {
		t.Errorf("got %d deliveries after the offer was withdrawn, want 2", got)
	}
	w.note(func() { w.offers = []job.Offer{offer("bubblewrap")} })
	w.wait(3)
	waitEmpty(t, q)
}

func TestPrioritiesShareWithoutStarving(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{})
	const each = 26
	for range each {
		for _, p := range job.Priorities() {
			submit(t, q, newJob(t, func(j *job.Job) { j.Priority = p }))
		}
	}
	w := work(t, q, 1, nil, offer("bubblewrap"))
	waitEmpty(t, q)
	got := map[job.Priority]int{}
	for _, d := range w.wait(3 * each)[:26] {
		got[d.Job.Priority]++
	}
	want := map[job.Priority]int{job.PriorityHigh: 16, job.PriorityNormal: 8, job.PriorityLow: 2}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("first 26 deliveries (-want +got):\n%s", diff)
	}
}

func TestLanesTakeTurns(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{})
	lanes := [][]string{nil, {"bubblewrap"}, {"bubblewrap", "docker"}}
	const each = 24
	for range each {
		for _, backends := range lanes {
			for _, p := range []job.Priority{job.PriorityHigh, job.PriorityNormal} {
				submit(t, q, newJob(t, func(j *job.Job) { j.Priority, j.Requires.Backends = p, backends }))
			}
		}
	}
	w := work(t, q, 1, nil, offer("bubblewrap"))
	got := map[string]int{}
	for _, d := range w.wait(2 * len(lanes) * each)[:36] {
		got[d.Job.Requires.Lane()+" "+string(d.Job.Priority)]++
	}
	want := map[string]int{
		"any high": 8, "bubblewrap high": 8, "bubblewrap+docker high": 8,
		"any normal": 4, "bubblewrap normal": 4, "bubblewrap+docker normal": 4,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("first 36 deliveries (-want +got):\n%s", diff)
	}
	waitEmpty(t, q)
}

func TestClaimsOnlyWithAFreeSlot(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{})
	for range 10 {
		submit(t, q, newJob(t, nil))
	}
	release := make(chan struct{})
	w := work(t, q, 3, func(ctx context.Context, d job.Delivery) {
		<-release
		must(t, d.Ack(ctx))
	}, offer("bubblewrap"))
	w.wait(3)
	if waiting, running := total(t, q); waiting != 7 || running != 3 {
		t.Errorf("got %d waiting and %d running, want 7 and 3", waiting, running)
	}
	close(release)
	w.wait(10)
	waitEmpty(t, q)
}

func TestConsumeWaitsForHandlers(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{})
	release, ended := make(chan struct{}), atomic.Bool{}
	w := work(t, q, 1, func(ctx context.Context, d job.Delivery) {
		<-release
		must(t, ctx.Err())
		must(t, d.Ack(ctx))
		ended.Store(true)
	}, offer("bubblewrap"))
	submit(t, q, newJob(t, nil))
	submit(t, q, newJob(t, nil))
	w.wait(1)
	w.stop()
	select {
	case <-w.done:
		t.Error("Consume returned while a handler ran")
	default:
	}
	close(release)
	<-w.done
	if !ended.Load() {
		t.Error("Consume returned before the handler")
	}
	if waiting, running := total(t, q); waiting != 1 || running != 0 {
		t.Errorf("got %d waiting and %d running after draining, want 1 and 0", waiting, running)
	}
}

func TestRedeliversWhatADeadWorkerHeld(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	cfg := queue.Config{AckWait: 300 * time.Millisecond}
	q := open(t, srv, cfg)
	want := submit(t, q, newJob(t, nil))
	dead := work(t, q, 1, func(context.Context, job.Delivery) {}, offer("bubblewrap"))
	dead.wait(1)
	dead.end()
	next := work(t, open(t, srv, cfg), 1, nil, offer("bubblewrap"))
	if got := next.wait(1)[0]; got.Job.ID != want.Job {
		t.Errorf("got job %s, want %s", got.Job.ID, want.Job)
	}
	waitEmpty(t, q)
}

func TestSameJobTwiceInOneWorker(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{})
	release := make(chan struct{})
	w := work(t, q, 4, func(ctx context.Context, d job.Delivery) {
		<-release
		must(t, d.Ack(ctx))
	}, offer("bubblewrap"))
	j := newJob(t, nil)
	submit(t, q, j)
	w.wait(1)
	must(t, q.Republish(testContext(t), job.Republish{Job: j, Generation: 2, Reason: "test"}))
	other := submit(t, q, newJob(t, nil))
	// The other job came after the copy, so the copy has been looked at.
	got := w.wait(2)
	if got[1].Job.ID != other.Job {
		t.Errorf("got a second delivery of job %s while it ran", got[1].Job.ID)
	}
	close(release)
	// The copy was put off, not lost.
	got = w.wait(3)
	if got[2].Job.ID != j.ID || got[2].Generation != 2 {
		t.Errorf("got job %s generation %d, want %s generation 2", got[2].Job.ID, got[2].Generation, j.ID)
	}
	waitEmpty(t, q)
}

func TestLater(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{})
	first := atomic.Bool{}
	w := work(t, q, 1, func(ctx context.Context, d job.Delivery) {
		if first.CompareAndSwap(false, true) {
			must(t, d.Later(50*time.Millisecond))
			return
		}
		must(t, d.Ack(ctx))
	}, offer("bubblewrap"))
	submit(t, q, newJob(t, nil))
	w.wait(2)
	waitEmpty(t, q)
}

func TestAckTwiceIsHarmless(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{})
	w := work(t, q, 1, func(ctx context.Context, d job.Delivery) {
		must(t, d.KeepAlive())
		must(t, d.Ack(ctx))
		must(t, d.Ack(ctx))
	}, offer("bubblewrap"))
	submit(t, q, newJob(t, nil))
	w.wait(1)
	waitEmpty(t, q)
}

func TestKeepAliveHoldsADelivery(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	const ackWait = 5 * time.Second // a busy machine stands still for a second
	q := open(t, srv, queue.Config{AckWait: ackWait})
	release, held := make(chan struct{}), atomic.Int64{}
	w := work(t, q, 1, func(ctx context.Context, d job.Delivery) {
		for start := time.Now(); ; held.Store(int64(time.Since(start))) {
			select {
			case <-release:
				must(t, d.Ack(ctx))
				return
			case <-time.After(ackWait / 10):
				must(t, d.KeepAlive())
			}
		}
	}, offer("bubblewrap"))
	submit(t, q, newJob(t, nil))
	w.wait(1)
	other := work(t, q, 1, nil, offer("bubblewrap"))
	waitFor(t, "three times AckWait", func() bool { return held.Load() > int64(3*ackWait) })
	// Had the held job been given free, it would come before this one:
	// redeliveries are served first.
	last := submit(t, q, newJob(t, nil))
	if got := other.wait(1)[0]; got.Job.ID != last.Job {
		t.Errorf("got the held job %s, want %s", got.Job.ID, last.Job)
	}
	close(release)
	waitEmpty(t, q)
}

func TestMalformedIsToldAndTakenOut(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{})
	submit(t, q, newJob(t, nil)) // makes the lane
	w := work(t, q, 1, nil, offer("bubblewrap"))
	w.wait(1)
	nc := srv.Connect()
	good, err := newJob(t, nil).Encode()
	must(t, err)
	cases := []struct {
		name, subject, body string
		header              map[string]string
	}{
		{name: "no json", subject: "jobs.any.normal.default", body: "\x00"},
		{name: "a server's own words", subject: "jobs.any.normal.default", header: map[string]string{"Status": "404"}},
		{name: "unknown field", subject: "jobs.any.normal.default", body: `{"code":"1","evil":1}`},
		{name: "no id", subject: "jobs.any.normal.default", body: `{"code":"1"}`},
		{name: "another tenant", subject: "jobs.any.normal.other", body: string(good)},
		{name: "another priority", subject: "jobs.any.high.default", body: string(good)},
		{name: "bad tenant", subject: "jobs.any.high.ä", body: string(good)},
		{name: "missing blob", subject: "jobs.any.normal.default", header: map[string]string{"Airlock-Blob": fmt.Sprintf("%064d", 1)}},
		{name: "bad digest", subject: "jobs.any.normal.default", header: map[string]string{"Airlock-Blob": "../../x"}},
		{name: "blob of another digest", subject: "jobs.any.normal.default", header: map[string]string{"Airlock-Blob": forgeBlob(t, nc)}},
		{name: "body and blob", subject: "jobs.any.normal.default", body: "x", header: map[string]string{"Airlock-Blob": forgeBlob(t, nc)}},
		{name: "bad generation", subject: "jobs.any.normal.default", body: string(good), header: map[string]string{"Airlock-Generation": "-1"}},
	}
	for i, c := range cases {
		publishRaw(t, nc, c.subject, c.body, c.header)
		waitFor(t, "report of: "+c.name, func() bool { return len(w.malformed()) == i+1 })
	}
	waitEmpty(t, q)
	if got := len(w.deliveries()); got != 1 {
		t.Errorf("got %d deliveries, want 1", got)
	}
}

// forgeBlob stores something under a name that is not its digest.
func forgeBlob(t *testing.T, nc *nats.Conn) (name string) {
	t.Helper()
	name = fmt.Sprintf("%064d", 2)
	publishRaw(t, nc, "blobs.default."+name+".0", `{"code":"1"}`, map[string]string{"Airlock-Parts": "1"})
	return name
}

// The bell wakes idle workers; without it every job would wait for a tick.
func TestEachJobRingsTheBell(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{})
	nc := srv.Connect()
	bells, err := nc.SubscribeSync("bell.>")
	must(t, err)
	must(t, nc.Flush())
	for _, generation := range []int{1, 2, 3} {
		j := newJob(t, func(j *job.Job) { j.Code = strings.Repeat("#", 10_000) })
		must(t, q.Republish(testContext(t), job.Republish{Job: j, Generation: generation}))
		bell, err := bells.NextMsg(patience)
		if err != nil {
			t.Fatalf("wait for the bell: %v", err)
		}
		if bell.Subject != "bell.any.normal.default" || len(bell.Data) != 0 {
			t.Errorf("got bell %s with %d bytes, want bell.any.normal.default and none", bell.Subject, len(bell.Data))
		}
	}
}

func TestSurvivesTheLossOfTheStore(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{})
	w := work(t, q, 1, nil, offer("bubblewrap"))
	submit(t, q, newJob(t, nil))
	w.wait(1)
	waitEmpty(t, q) // an acknowledgement of what is wiped finds nobody
	srv.Wipe()
	waitFor(t, "queue set up again", func() bool {
		return q.Advertise(testContext(t), presence("w1", offer("bubblewrap"))) == nil
	})
	submit(t, q, newJob(t, nil))
	w.wait(2)
}

func TestSurvivesRestart(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{})
	w := work(t, q, 2, nil, offer("bubblewrap"))
	submit(t, q, newJob(t, nil))
	w.wait(1)
	srv.Restart()
	submit(t, q, newJob(t, nil))
	w.wait(2)
	submit(t, q, newJob(t, func(j *job.Job) { j.Requires.Backends = []string{"bubblewrap", "docker"} }))
	w.wait(3)
	waitEmpty(t, q)
}

func TestConsumeRefusesAnEmptyConfig(t *testing.T) {
	t.Parallel()
	q := open(t, natstest.Start(t), queue.Config{})
	if err := q.Consume(testContext(t), queue.ConsumerConfig{}); err == nil {
		t.Error("got no error for an empty config")
	}
}

// TestASlotThatWasLeftIsTheNextJobs, and no more than 16 jobs beside those in the
// slots are in hand whose end is not committed.
func TestASlotThatWasLeftIsTheNextJobs(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{})
	end := make(chan struct{})
	const slots, inHand = 2, 2 + 16
	var inside, tooMany atomic.Int64
	w := work(t, q, slots, func(ctx context.Context, d job.Delivery) {
		if inside.Add(1) > inHand {
			tooMany.Add(1)
		}
		d.Leave()
		d.Leave()
		<-end
		inside.Add(-1)
		must(t, d.Ack(ctx))
	}, offer("bubblewrap"))
	for range 50 {
		submit(t, q, newJob(t, nil))
	}
	w.wait(inHand)
	for arrived := inHand + 1; arrived <= 2*inHand; arrived++ {
		end <- struct{}{}
		w.wait(arrived)
	}
	close(end)
	waitEmpty(t, q)
	if got := tooMany.Load(); got != 0 {
		t.Errorf("%d times there were more than %d handlers at once", got, inHand)
	}
}

// TestADeliverySaysWhetherOthersWaitBehindIt: all but the last.
func TestADeliverySaysWhetherOthersWaitBehindIt(t *testing.T) {
	t.Parallel()
	q := open(t, natstest.Start(t), queue.Config{})
	for range 3 {
		submit(t, q, newJob(t, nil))
	}
	behind := make(chan bool, 3)
	w := work(t, q, 1, func(ctx context.Context, d job.Delivery) {
		behind <- d.Behind
		must(t, d.Ack(ctx))
	}, offer("bubblewrap"))
	w.wait(3)
	if got := []bool{<-behind, <-behind, <-behind}; !slices.Equal(got, []bool{true, true, false}) {
		t.Errorf("got %v, want all but the last", got)
	}
}
