package queue_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"airlock/job"
	"airlock/queue"
	"airlock/queue/natstest"
)

// patience is how long a test waits for what must happen, on a machine that
// does much else. It is less than job.AckWait: what a worker should have given
// back is not to arrive in time because the server gave it out again.
const patience = 50 * time.Second

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	t.Cleanup(cancel)
	return ctx
}

// open opens a queue on a connection of its own.
func open(t testing.TB, srv *natstest.Server, cfg queue.Config) *queue.Queue {
	t.Helper()
	cfg.Log = testLog(t)
	q, err := queue.Open(testContext(t), srv.ConnectAs("worker"), cfg)
	if err != nil {
		t.Fatalf("open queue: %v", err)
	}
	t.Cleanup(func() { must(t, q.Close()) })
	return q
}

// attach is what a submitter of the tenant "default" has.
func attach(t testing.TB, srv *natstest.Server) *queue.Queue {
	t.Helper()
	return attachAs(t, srv, "default")
}

func attachAs(t testing.TB, srv *natstest.Server, tenant string) *queue.Queue {
	t.Helper()
	q, err := queue.Attach(testContext(t), srv.ConnectAs("submitter-"+tenant), queue.Config{Log: testLog(t), Tenant: tenant})
	if err != nil {
		t.Fatalf("attach to queue: %v", err)
	}
	t.Cleanup(func() { must(t, q.Close()) })
	return q
}

// testLog shows the queue's log in a verbose run only.
func testLog(t testing.TB) zerolog.Logger {
	if !testing.Verbose() || os.Getenv("AIRLOCK_TEST_LOG") == "" {
		return zerolog.Nop()
	}
	return zerolog.New(zerolog.ConsoleWriter{Out: os.Stderr, NoColor: true}).With().Str("test", t.Name()).Logger()
}

// wholeBytes spares cmp the comparison of megabytes one by one.
var wholeBytes = cmp.Comparer(func(a, b job.Bytes) bool { return bytes.Equal(a, b) })

// newJob makes a prepared job; change may be nil.
func newJob(t testing.TB, change func(j *job.Job)) *job.Job {
	t.Helper()
	j := &job.Job{Code: "print(1)"}
	if change != nil {
		change(j)
	}
	must(t, j.Prepare(time.Now()))
	return j
}

// offer is what a full backend of that name offers.
func offer(backend string) job.Offer {
	return job.Offer{
		Backend: backend, Version: "1", Isolation: job.IsolationStrong,
		OS: "linux", Arch: "amd64", Limits: job.KernelLimits(),
	}
}

func presence(id string, offers ...job.Offer) queue.Presence {
	return queue.Presence{ID: id, Host: "host-" + id, Started: time.Now(), Slots: 2, Offers: offers}
}

func submit(t testing.TB, q *queue.Queue, j *job.Job) queue.Receipt {
	t.Helper()
	receipt, err := q.Submit(testContext(t), j, queue.SubmitOptions{Park: true})
	if err != nil {
		t.Fatalf("submit: %v", err)
	}
	return receipt
}

// worker is a running Consume that keeps what arrives.
type worker struct {
	t    testing.TB
	stop context.CancelFunc
	done chan struct{}

	mu      sync.Mutex
	offers  []job.Offer
	arrived []job.Delivery
	bad     []error
	news    chan struct{}
}

// work starts a worker that acknowledges each delivery, or does what handle
// says. It ends with the test.
func work(t testing.TB, q *queue.Queue, slots int, handle queue.Handler, offers ...job.Offer) *worker {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	w := &worker{t: t, stop: stop, done: make(chan struct{}), offers: offers, news: make(chan struct{}, 1)}
	if handle == nil {
		handle = func(ctx context.Context, d job.Delivery) { must(t, d.Ack(ctx)) }
	}
	go func() {
		defer close(w.done)
		must(t, q.Consume(ctx, queue.ConsumerConfig{
			Slots: slots, Offers: w.current,
			Handler: func(ctx context.Context, d job.Delivery) {
				w.note(func() { w.arrived = append(w.arrived, d) })
				handle(ctx, d)
			},
			Malformed: func(_ context.Context, _ string, _ []byte, err error) {
				w.note(func() { w.bad = append(w.bad, err) })
			},
		}))
	}()
	t.Cleanup(w.end)
	return w
}

func (w *worker) current() []job.Offer {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.offers
}

func (w *worker) note(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
	select {
	case w.news <- struct{}{}:
	default:
	}
}

func (w *worker) end() {
	w.stop()
	<-w.done
}

func (w *worker) deliveries() []job.Delivery {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]job.Delivery(nil), w.arrived...)
}

func (w *worker) malformed() []error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]error(nil), w.bad...)
}

// wait returns the deliveries once there are n.
func (w *worker) wait(n int) []job.Delivery {
	w.t.Helper()
	waitFor(w.t, "deliveries", func() bool { return len(w.deliveries()) >= n })
	return w.deliveries()
}

// waitFor polls until ok.
func waitFor(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("no %s within %s", what, patience)
		}
		<-time.After(2 * time.Millisecond)
	}
}

// waitEmpty waits until the queue holds no job.
func waitEmpty(t testing.TB, q *queue.Queue) {
	t.Helper()
	waitFor(t, "empty queue", func() bool {
		lanes, err := q.Lanes(testContext(t))
		waiting, running := sum(lanes)
		return err == nil && waiting+running == 0 // a server that is slow is asked again
	})
}

func total(t testing.TB, q *queue.Queue) (waiting, running int) {
	t.Helper()
	lanes, err := q.Lanes(testContext(t))
	must(t, err)
	return sum(lanes)
}

func sum(lanes []queue.Lane) (waiting, running int) {
	for _, lane := range lanes {
		for _, depth := range lane.Depth {
			waiting, running = waiting+depth.Waiting, running+depth.Running
		}
	}
	return waiting, running
}

// background runs until the returned stop is called, which waits for its end.
// The test's end stops it too.
func background(t testing.TB, run func(context.Context) error) (stop func()) {
	t.Helper()
	c, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		must(t, run(c))
	}()
	stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(stop)
	return stop
}

// publishRaw publishes as a foreign client would, and waits for the stream.
func publishRaw(t testing.TB, nc *nats.Conn, subject, body string, header map[string]string) {
	t.Helper()
	msg := nats.NewMsg(subject)
	msg.Data = []byte(body)
	for name, value := range header {
		msg.Header.Set(name, value)
	}
	if _, err := nc.RequestMsg(msg, patience); err != nil {
		t.Errorf("publish to %s: %v", subject, err)
	}
}

// must reports an error; it may be called from any goroutine.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want none", err)
	}
}
