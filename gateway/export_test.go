package gateway

import (
	"net/http"

	"airlock/job"
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
