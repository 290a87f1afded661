package queue_test

import (
	"context"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"airlock/job"
	"airlock/queue"
	"airlock/queue/natstest"
)

// slowLink is a connection to a server that can keep what the server says.
type slowLink struct {
	gate sync.Mutex // held while nothing comes through
}

// through returns a connection of a worker by way of the link.
func (l *slowLink) through(t *testing.T, srv *natstest.Server) *nats.Conn {
	t.Helper()
	address, err := url.Parse(srv.URLOf("worker"))
	must(t, err)
	server := address.Host
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	var copying sync.WaitGroup
	copying.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", server)
			if err != nil {
				near.Close()
				return
			}
			copying.Go(func() { defer far.Close(); _, _ = io.Copy(far, near) })
			copying.Go(func() { defer near.Close(); _, _ = io.Copy(near, gated{far, l}) })
		}
	})
	address.Host = listener.Addr().String()
	nc, err := nats.Connect(address.String(), nats.Timeout(patience), nats.CustomInboxPrefix(queue.InboxPrefix("worker")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		nc.Close()
		listener.Close()
		copying.Wait()
	})
	return nc
}

// gated is what the server says, when the gate is open.
type gated struct {
	io.Reader
	link *slowLink
}

func (g gated) Read(p []byte) (int, error) {
	n, err := g.Reader.Read(p)
	g.link.gate.Lock()
	defer g.link.gate.Unlock()
	return n, err
}

func openThrough(t *testing.T, link *slowLink, srv *natstest.Server) *queue.Queue {
	t.Helper()
	q, err := queue.Open(testContext(t), link.through(t, srv), queue.Config{Log: testLog(t)})
	must(t, err)
	t.Cleanup(func() { must(t, q.Close()) })
	return q
}

// TestAJobThatComesLateIsNotLost: what the server gave out while the worker's
// connection, or the worker, stood still is run, and not left to wait until the
// queue gives it out again.
func TestAJobThatComesLateIsNotLost(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{})
	submit(t, q, newJob(t, nil))
	link := &slowLink{}
	w := work(t, openThrough(t, link, srv), 1, nil, offer("bubblewrap"))
	w.wait(1)
	waitEmpty(t, q)
	link.gate.Lock()
	submit(t, q, newJob(t, nil))
	waitFor(t, "job on its way", func() bool { _, running := total(t, q); return running == 1 })
	<-time.After(3 * time.Second) // for all patience with the answer to be over
	link.gate.Unlock()
	w.wait(2) // within patience, which is less than AckWait
	waitEmpty(t, q)
}

// TestAJobThatComesLateToABusyWorker is given back at once, for another.
func TestAJobThatComesLateToABusyWorker(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{})
	docker := func(j *job.Job) { j.Requires.Backends = []string{"docker"} }
	link, release := &slowLink{}, make(chan struct{})
	released := sync.OnceFunc(func() { close(release) })
	defer released()
	submit(t, q, newJob(t, nil))
	submit(t, q, newJob(t, docker))
	warm := 2
	var mu sync.Mutex
	busy := work(t, openThrough(t, link, srv), 1, func(ctx context.Context, d job.Delivery) {
		mu.Lock()
		warm--
		last := warm < 0
		mu.Unlock()
		if last {
			<-release
		}
		must(t, d.Ack(ctx))
	}, offer("bubblewrap"), offer("docker"))
	busy.wait(2)
	waitEmpty(t, q)
	link.gate.Lock()
	submit(t, q, newJob(t, nil))
	submit(t, q, newJob(t, docker))
	waitFor(t, "both jobs on their way", func() bool { _, running := total(t, q); return running == 2 })
	link.gate.Unlock()
	busy.wait(3)
	other := work(t, q, 1, nil, offer("bubblewrap"), offer("docker"))
	other.wait(1) // within patience, which is less than AckWait
	released()
	waitEmpty(t, q)
}

// TestAJobIsRecordedThatComesLate to who records.
func TestAJobIsRecordedThatComesLate(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{})
	link, book := &slowLink{}, &ledger{rows: map[string]job.Queued{}}
	slow := openThrough(t, link, srv)
	background(t, func(ctx context.Context) error { return slow.Record(ctx, book.sink) })
	submit(t, q, newJob(t, nil))
	waitFor(t, "first record", func() bool { return book.count() == 1 })
	waitFor(t, "empty stream", func() bool { return srv.Messages("QUEUED") == 0 })
	link.gate.Lock()
	for range 5 {
		submit(t, q, newJob(t, nil))
		<-time.After(2 * time.Second) // for the recorder to ask again and again
	}
	link.gate.Unlock()
	waitFor(t, "records of all jobs", func() bool { return book.count() == 6 })
}
