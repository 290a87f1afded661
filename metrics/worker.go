package metrics

import (
	"cmp"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"airlock/job"
)

const (
	// MaxTools is how many tools have counts of their own.
	MaxTools = 200
	// maxDecisions is more than there are.
	maxDecisions = 64
	// unknownTool stands for whatever a guest asked for that no provider
	// announces.
	unknownTool = "unknown"
)

// WorkerState is how a worker stands just now.
type WorkerState struct {
	Slots, Busy       int
	Draining, Leading bool
	// Offered says of each backend whether it is, Parked how many guests of it
	// stand ready.
	Offered map[string]bool
	Parked  map[string]int
	// Decisions are the reconciler's so far.
	Decisions map[string]int64
}

// Worker counts what one worker does. It is a worker.Meter and a
// broker.Meter; its methods may be called from several goroutines at once.
type Worker struct {
	reg              registry
	claims, attempts *prometheus.CounterVec
	phases           *prometheus.HistogramVec
	leases, fences   prometheus.Counter
	calls            *prometheus.CounterVec
	callTime         *prometheus.HistogramVec
	audit            *prometheus.HistogramVec
	auditFailures    *prometheus.CounterVec
	tools, decisions names
}

// NewWorker makes a Worker that asks state when it is scraped.
func NewWorker(version string, state func() WorkerState) *Worker {
	r := newRegistry(OfWorker, version)
	w := &Worker{
		reg: r, claims: r.counter(claims), attempts: r.counter(attempts), phases: r.histogram(phaseTime),
		leases: r.counter(leasesLost).WithLabelValues(), fences: r.counter(fencesRefused).WithLabelValues(),
		calls: r.counter(toolCalls), callTime: r.histogram(toolTime),
		audit: r.histogram(auditTime), auditFailures: r.counter(auditFailures),
		tools: names{max: MaxTools}, decisions: names{max: maxDecisions},
	}
	for _, row := range []string{rowOf(true), rowOf(false)} {
		w.auditFailures.WithLabelValues(row) // 0 is news too
	}
	r.looked(func(set func(Metric, float64, ...string)) { w.look(state(), set) },
		slots, slotsBusy, draining, leading, parked, offered, decisions)
	return w
}

// Handler answers scrapes.
func (w *Worker) Handler() http.Handler { return w.reg.handler() }

func (w *Worker) look(s WorkerState, set func(Metric, float64, ...string)) {
	set(slots, float64(s.Slots))
	set(slotsBusy, float64(s.Busy))
	set(draining, one(s.Draining))
	set(leading, one(s.Leading))
	for backend, count := range s.Parked {
		set(parked, float64(count), backend)
	}
	for backend, is := range s.Offered {
		set(offered, one(is), backend)
	}
	sums := map[string]float64{}
	for what, count := range s.Decisions {
		sums[w.decisions.of(what)] += float64(count)
	}
	for what, count := range sums {
		set(decisions, count, what)
	}
}

// Claim counts a delivery.
func (w *Worker) Claim(outcome string) { w.claims.WithLabelValues(outcome).Inc() }

// Attempt counts an attempt that has ended.
func (w *Worker) Attempt(backend, status string) { w.attempts.WithLabelValues(backend, status).Inc() }

// Phase notes how long a part of an attempt took.
func (w *Worker) Phase(backend, phase string, took time.Duration) {
	w.phases.WithLabelValues(backend, phase).Observe(took.Seconds())
}

// LeaseLost counts an attempt whose lease was lost.
func (w *Worker) LeaseLost() { w.leases.Inc() }

// Fenced counts an attempt that was refused.
func (w *Worker) Fenced() { w.fences.Inc() }

// Call counts a tool call that has ended. tool is "" for what no provider
// announces.
func (w *Worker) Call(tool string, outcome job.CallState, took time.Duration) {
	tool = cmp.Or(tool, unknownTool)
	if tool != unknownTool {
		tool = w.tools.of(tool)
	}
	w.calls.WithLabelValues(tool, string(outcome)).Inc()
	w.callTime.WithLabelValues(string(outcome)).Observe(took.Seconds())
}

// Audited notes how long the start or the end of a call took to be durable.
func (w *Worker) Audited(start bool, took time.Duration, err error) {
	if err != nil {
		w.auditFailures.WithLabelValues(rowOf(start)).Inc()
		return
	}
	w.audit.WithLabelValues(rowOf(start)).Observe(took.Seconds())
}

func rowOf(start bool) string {
	if start {
		return "start"
	}
	return "end"
}
