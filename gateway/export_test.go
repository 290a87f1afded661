package gateway

import (
	"net/http"

	"airlock/job"
	"airlock/queue"
)

// Following is how many streams of events are open.
func Following(g *Gateway) (n int) {
	g.hub.mu.RLock()
	defer g.hub.mu.RUnlock()
	for _, l := range g.hub.jobs {
		n += len(l)
	}
	for _, l := range g.hub.batches {
		n += len(l)
	}
	return n
}

// Waiting is how many requests wait for jobs.
func Waiting(g *Gateway) int {
	g.waiters.mu.Lock()
	defer g.waiters.mu.Unlock()
	return len(g.waiters.byID)
}

// Client is what callbacks are delivered with.
func (c CallbackConfig) Client() *http.Client { return c.client() }

// ErrAddress is of an address that callbacks may not be sent to.
var ErrAddress = errAddress

// Remember keeps n callbacks in mind, tells of the end of the first and the
// last, and returns how many are kept and which of the two were known.
func Remember(n int) (kept int, first, last bool) {
	p := pending{byJob: map[job.ID]job.ID{}, wake: make(chan struct{}, 1)}
	id := func(i int) job.ID { return job.ID{byte(i), byte(i >> 8), byte(i >> 16), 1} }
	for i := range n {
		p.add(id(i), id(i))
	}
	kept = len(p.byJob) + len(p.older)
	p.ended(id(0))
	first = len(p.take()) == 1
	p.ended(id(n - 1))
	return kept, first, len(p.take()) == 1
}

// MaxPending bounds the callbacks that are remembered.
const MaxPending = maxPending

// Hear follows a job for a tenant while the hub hears news and ends, and takes
// what it got.
func Hear(tenant string, id job.ID, news []queue.Event, ends ...queue.Announcement) (got int, ended, ok bool) {
	var h hub
	l := h.follow(tenant, id)
	defer l.leave()
	for _, e := range news {
		h.heard(e)
	}
	for _, a := range ends {
		h.ended(a)
	}
	heard, ended, ok := l.take()
	return len(heard), ended, ok
}
