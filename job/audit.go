package job

import "time"

// AuditScope chooses whose audit is verified: one job, one batch, or, with
// neither, all of a tenant's jobs made since a time.
type AuditScope struct {
	ID    ID        `json:"id,omitzero"`
	Batch string    `json:"batch,omitzero"`
	Since time.Time `json:"since,omitzero"`
	// After continues: only jobs with a larger id.
	After ID `json:"after,omitzero"`
}

// Sealed is what the row of an attempt says of its audit.
type Sealed struct {
	Job     ID
	Attempt int
	Outcome string
	Status  Status
	// Head is that of the chain in hex; empty when the attempt came to no end
	// that could tell it, or never had a guest.
	Head      string
	ToolCalls int
}

// FaultKind is what is wrong with a row of the audit.
type FaultKind string

// The kinds of faults.
const (
	// FaultChanged: a column of the row is not what was recorded.
	FaultChanged FaultKind = "changed"
	// FaultMoved: the row has another call's number.
	FaultMoved FaultKind = "moved"
	// FaultRemoved: rows that were recorded are not there.
	FaultRemoved FaultKind = "removed"
	// FaultAdded: the row was not recorded by the attempt.
	FaultAdded FaultKind = "added"
	// FaultHead: the rows fit each other, but not the head beside the result.
	FaultHead FaultKind = "head"
	// FaultUnchecked: nothing is known against the link, but what it follows is
	// missing.
	FaultUnchecked FaultKind = "unchecked"
)

// Fault is one thing that is wrong with the audit of an attempt.
type Fault struct {
	Job     ID        `json:"job"`
	Attempt int       `json:"attempt"`
	Kind    FaultKind `json:"kind"`
	// Seq is the call, and Link the first of its links, that the fault is seen
	// at; zero where it has none.
	Seq  int    `json:"seq,omitzero"`
	Link int    `json:"link,omitzero"`
	What string `json:"what"`
}

// Audit is what a verification came to, or a part of one.
type Audit struct {
	Jobs     int `json:"jobs"`
	Attempts int `json:"attempts"`
	// Unsealed attempts have no head: they run, or their worker died. How many
	// calls they made in the end cannot be told; the rows that are there are
	// held against each other all the same.
	Unsealed int `json:"unsealed"`
	Calls    int `json:"calls"`
	// Faulty counts all faults; Faults are the first of each attempt.
	Faulty int     `json:"faulty"`
	Faults []Fault `json:"faults,omitzero"`
	// Next is where to go on; zero at the end.
	Next ID `json:"next,omitzero"`
}

// Divergence is the first thing that went another way in a replay.
type Divergence struct {
	// Kind is arguments (another call than recorded), extra (a call that was
	// not recorded), missing (one that was not made again), answer, status,
	// value, error or stdout.
	Kind string `json:"kind"`
	// Seq and ReplaySeq are the call's numbers then and now.
	Seq       int    `json:"seq,omitzero"`
	ReplaySeq int    `json:"replay_seq,omitzero"`
	Tool      string `json:"tool,omitzero"`
	Before    Bytes  `json:"before,omitzero"`
	After     Bytes  `json:"after,omitzero"`
}

// Replay is what a replay came to.
type Replay struct {
	Job    ID   `json:"job"`
	Replay ID   `json:"replay"`
	Equal  bool `json:"equal"`
	// Calls is how many calls the replay made.
	Calls      int         `json:"calls"`
	Divergence *Divergence `json:"divergence,omitzero"`
}
