package metrics

import "slices"

// Kind is one of Prometheus' types.
type Kind string

// The kinds.
const (
	Counter   Kind = "counter"
	Gauge     Kind = "gauge"
	Histogram Kind = "histogram"
)

// Metric is one of the table.
type Metric struct {
	Name   string
	Kind   Kind
	Labels []string
	Help   string
	// Of are the programs that have it.
	Of []string
}

// The programs.
const (
	OfWorker  = "worker"
	OfGateway = "gateway"
)

func of(programs ...string) []string { return programs }

// All that there is. The names are what dashboards and alarms are written
// with: they are not changed.
var (
	buildInfo = Metric{"airlock_build_info", Gauge, []string{"program", "version"}, "Always 1; the labels say what runs here.", of(OfWorker, OfGateway)}

	claims    = Metric{"airlock_claims_total", Counter, []string{"outcome"}, "Deliveries of jobs, by what came of claiming them.", of(OfWorker)}
	attempts  = Metric{"airlock_attempts_total", Counter, []string{"backend", "status"}, "Attempts that ended, by the status of their result, or why they have none.", of(OfWorker)}
	phaseTime = Metric{"airlock_attempt_phase_duration_seconds", Histogram, []string{"backend", "phase"}, "Where the time of attempts went.", of(OfWorker)}

	toolCalls     = Metric{"airlock_tool_calls_total", Counter, []string{"tool", "outcome"}, "Tool calls of guests that ended, the refused ones among them.", of(OfWorker)}
	toolTime      = Metric{"airlock_tool_call_duration_seconds", Histogram, []string{"outcome"}, "Time of tool calls from the guest's frame to their recorded end.", of(OfWorker)}
	auditTime     = Metric{"airlock_audit_commit_duration_seconds", Histogram, []string{"row"}, "Time until the start or the end of a tool call was committed: how far the audit lags behind the guest.", of(OfWorker)}
	auditFailures = Metric{"airlock_audit_failures_total", Counter, []string{"row"}, "Starts and ends of tool calls that could not be recorded.", of(OfWorker)}

	leasesLost    = Metric{"airlock_leases_lost_total", Counter, nil, "Attempts given up since no heartbeat confirmed their lease in time.", of(OfWorker)}
	fencesRefused = Metric{"airlock_fences_refused_total", Counter, nil, "Ends of attempts that the database refused since another attempt had the job, or it had ended.", of(OfWorker)}

	slots     = Metric{"airlock_slots", Gauge, nil, "Jobs that this worker runs at once.", of(OfWorker)}
	slotsBusy = Metric{"airlock_slots_busy", Gauge, nil, "Slots with a job.", of(OfWorker)}
	draining  = Metric{"airlock_draining", Gauge, nil, "1 while this worker takes no new jobs since it is to end.", of(OfWorker)}
	parked    = Metric{"airlock_parked_guests", Gauge, []string{"backend"}, "Guests that stand ready for their jobs.", of(OfWorker)}
	offered   = Metric{"airlock_backend_offered", Gauge, []string{"backend"}, "1 while the backend probes well and is offered, else 0.", of(OfWorker)}

	leading   = Metric{"airlock_reconciler_leading", Gauge, nil, "1 while this worker's reconciler leads the pool.", of(OfWorker)}
	decisions = Metric{"airlock_reconciler_decisions_total", Counter, []string{"decision"}, "What this worker's reconciler did while it led.", of(OfWorker)}

	httpRequests = Metric{"airlock_http_requests_total", Counter, []string{"route", "method", "code"}, "HTTP requests that were answered.", of(OfGateway)}
	httpTime     = Metric{"airlock_http_request_duration_seconds", Histogram, []string{"route", "method"}, "Time of HTTP requests; of streams, how long they lasted.", of(OfGateway)}
	httpOpen     = Metric{"airlock_http_requests_in_flight", Gauge, nil, "HTTP requests under way, streams among them.", of(OfGateway)}

	queueJobs   = Metric{"airlock_queue_jobs", Gauge, []string{"lane", "priority", "state"}, "Jobs in the queue. A job whose worker died counts as running until it is delivered again.", of(OfGateway)}
	queueOldest = Metric{"airlock_queue_oldest_age_seconds", Gauge, []string{"lane"}, "How long the oldest waiting job of the lane has waited.", of(OfGateway)}

	fleetWorkers = Metric{"airlock_fleet_workers", Gauge, []string{"state"}, "Workers of the fleet that are alive.", of(OfGateway)}
	fleetSlots   = Metric{"airlock_fleet_slots", Gauge, nil, "Slots of all workers that take jobs.", of(OfGateway)}
	fleetBusy    = Metric{"airlock_fleet_slots_busy", Gauge, nil, "Slots with a job, of all workers that take jobs.", of(OfGateway)}

	dependencyUp = Metric{"airlock_dependency_up", Gauge, []string{"dependency"}, "1 if the last look at it brought an answer, else 0.", of(OfGateway)}
)

// Table lists all metrics of a program, in the order of METRICS.md.
func Table(program string) []Metric {
	all := []Metric{
		buildInfo, claims, attempts, phaseTime, toolCalls, toolTime, auditTime, auditFailures, leasesLost, fencesRefused,
		slots, slotsBusy, draining, parked, offered, leading, decisions,
		httpRequests, httpTime, httpOpen, queueJobs, queueOldest, fleetWorkers, fleetSlots, fleetBusy, dependencyUp,
	}
	return slices.DeleteFunc(all, func(m Metric) bool { return !slices.Contains(m.Of, program) })
}
