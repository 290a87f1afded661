package gateway

import "net/http"

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
