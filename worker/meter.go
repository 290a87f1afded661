package worker

import (
	"errors"
	"time"

	"airlock/job"
)

// Meter counts what a Worker does. Its methods are called from several
// goroutines at once and must be quick. No word that it is given is a guest's
// or a submitter's.
type Meter interface {
	// Claim is told of each delivery: the ledger's verdict, or unfit where no
	// backend here fits the job, or unreachable where the ledger was not.
	Claim(outcome string)
	// Attempt is told of each attempt that ended: the status of its result
	// once that is committed, or one of the constants Attempt….
	Attempt(backend, status string)
	// Phase is told how long a part of an attempt took, one of Phases.
	Phase(backend, phase string, took time.Duration)
	// LeaseLost is told of each attempt given up for that, and Fenced of each
	// whose end the ledger refused.
	LeaseLost()
	Fenced()
}

// The outcomes of a delivery for which there is no verdict.
const (
	ClaimUnfit       = "unfit"
	ClaimUnreachable = "unreachable"
)

// What a Meter is told of attempts that have no committed result.
const (
	// AttemptAbandoned lost its lease or was fenced off.
	AttemptAbandoned = "abandoned"
	// AttemptHandedBack was interrupted by the worker's end.
	AttemptHandedBack = "handed_back"
	// AttemptUnrecorded could not be committed.
	AttemptUnrecorded = "unrecorded"
)

// The phases of an attempt.
const (
	PhaseQueue    = "queue_wait"
	PhaseClaim    = "claim"
	PhaseStartup  = "startup"
	PhaseWall     = "wall"
	PhaseTools    = "tool_wait"
	PhaseCommit   = "commit"
	PhaseAck      = "ack"
	PhaseAnnounce = "announce"
)

// Phases are those of an attempt in their order. Wall is the guest's own time,
// of which tool_wait is no part; ack and announce are beside each other.
func Phases() []string {
	return []string{PhaseQueue, PhaseClaim, PhaseStartup, PhaseWall, PhaseTools, PhaseCommit, PhaseAck, PhaseAnnounce}
}

// unmetered counts nothing.
type unmetered struct{}

func (unmetered) Claim(string)                        {}
func (unmetered) Attempt(string, string)              {}
func (unmetered) Phase(string, string, time.Duration) {}
func (unmetered) LeaseLost()                          {}
func (unmetered) Fenced()                             {}

// measure notes the phases that a result tells of. What did not happen took
// no time, and is no sample.
func (w *Worker) measure(u job.Usage, backend string) {
	for phase, took := range map[string]job.Duration{PhaseStartup: u.Startup, PhaseWall: u.Wall, PhaseTools: u.ToolWait} {
		if took > 0 {
			w.cfg.Meter.Phase(backend, phase, took.Std())
		}
	}
}

// since notes a phase that began then and is over.
func (w *Worker) since(backend, phase string, began time.Time) {
	w.cfg.Meter.Phase(backend, phase, time.Since(began))
}

// lost counts an attempt that has no committed result, by the reason.
func (w *Worker) lost(backend string, reason error) {
	switch {
	case errors.Is(reason, job.ErrLeaseLost):
		w.cfg.Meter.LeaseLost()
		w.cfg.Meter.Attempt(backend, AttemptAbandoned)
	case errors.Is(reason, job.ErrFenced):
		w.cfg.Meter.Fenced()
		w.cfg.Meter.Attempt(backend, AttemptAbandoned)
	default:
		w.cfg.Meter.Attempt(backend, AttemptUnrecorded)
	}
}
