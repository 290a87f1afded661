package metrics

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"airlock/job"
)

const (
	// lookEvery is how old what a scrape shows of the queue may be: looking
	// costs a worker and the database a moment each.
	lookEvery = 5 * time.Second
	// lookTime bounds a look; a scraper waits 10 s.
	lookTime = 4 * time.Second
	// maxLanes is as many as there can be.
	maxLanes = 300
)

// Fleet is how the queue and its workers stand just now. What is not known is
// left out, and the reason is in Problems.
type Fleet struct {
	Lanes []LaneDepth
	// Oldest is since when the oldest waiting job of a lane waits.
	Oldest map[string]time.Time
	// Workers are those that take jobs, Draining those that do no more.
	Workers, Draining, Slots, Busy int
	// Known says whether the workers are.
	Known bool
	// Problems are the errors of what was asked, nil for what answered.
	Problems map[string]error
}

// LaneDepth counts the jobs of one lane and priority.
type LaneDepth struct {
	Lane             string
	Priority         job.Priority
	Waiting, Running int
}

// Gateway counts what one gateway does. Its methods may be called from several
// goroutines at once.
type Gateway struct {
	reg      registry
	requests *prometheus.CounterVec
	times    *prometheus.HistogramVec
	open     prometheus.Gauge
	ask      func(context.Context) Fleet

	mu    sync.Mutex
	fleet Fleet     // guarded by mu, as asked
	asked time.Time // when fleet was asked for
}

// NewGateway makes a Gateway that asks about the fleet when it is scraped, but
// not more often than every 5 s.
func NewGateway(version string, ask func(context.Context) Fleet) *Gateway {
	r := newRegistry(OfGateway, version)
	g := &Gateway{
		reg: r, requests: r.counter(httpRequests), times: r.histogram(httpTime),
		open: r.gauge(httpOpen).WithLabelValues(), ask: ask,
	}
	r.looked(g.look, queueJobs, queueOldest, fleetWorkers, fleetSlots, fleetBusy, dependencyUp)
	return g
}

// Handler answers scrapes.
func (g *Gateway) Handler() http.Handler { return g.reg.handler() }

// Begin counts a request in that is under way. The caller calls done once,
// with the route's pattern, or "" where none is, and the status.
func (g *Gateway) Begin(method string) (done func(route string, code int)) {
	began := time.Now()
	g.open.Inc()
	return func(route string, code int) {
		g.open.Dec()
		if route == "" {
			route = Other
		}
		method := methodOf(method)
		g.requests.WithLabelValues(route, method, strconv.Itoa(code)).Inc()
		g.times.WithLabelValues(route, method).Observe(time.Since(began).Seconds())
	}
}

// methodOf bounds what a client may write.
func methodOf(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return method
	}
	return Other
}

// now is the fleet, as it was a moment ago at most.
func (g *Gateway) now() Fleet {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.asked.IsZero() || time.Since(g.asked) >= lookEvery {
		ctx, cancel := context.WithTimeout(context.Background(), lookTime)
		defer cancel()
		g.fleet = g.ask(ctx)
		g.asked = time.Now()
	}
	return g.fleet
}

func (g *Gateway) look(set func(Metric, float64, ...string)) {
	f := g.now()
	for dependency, err := range f.Problems {
		set(dependencyUp, one(err == nil), dependency)
	}
	if f.Known {
		set(fleetWorkers, float64(f.Workers), "live")
		set(fleetWorkers, float64(f.Draining), "draining")
		set(fleetSlots, float64(f.Slots))
		set(fleetBusy, float64(f.Busy))
	}
	lanes := names{max: maxLanes}
	type series struct{ lane, priority, state string }
	depths := map[series]int{}
	for _, l := range f.Lanes {
		lane := lanes.of(l.Lane)
		depths[series{lane, string(l.Priority), "waiting"}] += l.Waiting
		depths[series{lane, string(l.Priority), "running"}] += l.Running
	}
	for s, count := range depths {
		set(queueJobs, float64(count), s.lane, s.priority, s.state)
	}
	ages := map[string]time.Duration{}
	for lane, since := range f.Oldest {
		lane = lanes.of(lane)
		ages[lane] = max(ages[lane], time.Since(since))
	}
	for lane, age := range ages {
		set(queueOldest, age.Seconds(), lane)
	}
}
