package job

import "time"

// Lease timing. A lease is shorter than the queue's patience (AckWait), so
// that the row always frees a job before the queue delivers it again.
const (
	// Lease is how long a claim lasts without a heartbeat.
	Lease = 45 * time.Second
	// HeartbeatEvery is how often a worker extends its leases.
	HeartbeatEvery = 15 * time.Second
	// LeaseMargin: a worker that could not extend a lease until this long
	// before its end kills the guest.
	LeaseMargin = 10 * time.Second
	// AckWait is how long the queue waits before it delivers a job again.
	AckWait = 60 * time.Second
)

// ClaimRequest asks for the right to run a job.
type ClaimRequest struct {
	Job        *Job
	Generation int
	Worker     string
	Backend    string
	// Queued is when the message entered the queue.
	Queued time.Time
}

// Verdict is what became of a claim. The zero value is invalid.
type Verdict int

// The verdicts.
const (
	// Claimed: the job is ours, with Claim.Attempt as the fence.
	Claimed Verdict = iota + 1
	// Ended: the job has its result. The delivery is to be acknowledged.
	Ended
	// Superseded: a newer generation of the job is, or will be, in the
	// queue. The delivery is to be acknowledged.
	Superseded
	// Held: another worker's lease is live. Nothing is to be acknowledged.
	Held
	// Postponed: its time has not come; the reconciler will publish it. The
	// delivery is to be acknowledged.
	Postponed
	// Mismatched: a job of this id with another content exists. The delivery
	// is to be acknowledged, and the fault logged.
	Mismatched
)

// String names the verdict.
func (v Verdict) String() string {
	return [...]string{"invalid", "claimed", "ended", "superseded", "held", "postponed", "mismatched"}[v]
}

// Claim is the answer to a ClaimRequest.
type Claim struct {
	Verdict Verdict
	Attempt int
	// Queued is when the job was first submitted.
	Queued time.Time
	// CancelRequested is set when somebody asked before the claim.
	CancelRequested bool
	// LeaseLeft is how long the other's lease lasts, when Held.
	LeaseLeft time.Duration
}

// Holding names a lease.
type Holding struct {
	Job     ID
	Attempt int
}

// Heartbeat is a lease that was extended.
type Heartbeat struct {
	Holding
	CancelRequested bool
}

// Queued is the fact that a job entered the queue.
type Queued struct {
	Job *Job
	// Spec is the job's canonical JSON as it was published.
	Spec       []byte
	Generation int
	At         time.Time
}

// Republish is a job that the reconciler puts into the queue again.
type Republish struct {
	Job        *Job
	Generation int
	// Reason is why, for the log and for counting: retry, due, lease_expired,
	// requeued, unconfirmed; or, when Buried, the type of its last error.
	Reason string
	// Buried: the job was out of tries and is dead. It is not published.
	Buried bool
}
