package worker

import (
	"maps"
	"sync"
)

// What a Reconciler decides, as Decisions counts it. Those that end in _ are
// followed by a reason.
const (
	decidedPublished = "published_"
	decidedBuried    = "buried_"
	decidedExpired   = "expired"
	decidedAnnounced = "announced"
	decidedRebuilt   = "rebuilt"
	decidedRecreated = "consumers_recreated"
	decidedSwept     = "rows_swept"
	decidedMonths    = "months_dropped"
	decidedRetired   = "jobs_retired"
	decidedUnloaded  = "messages_removed"

	reasonUnplaceable = "unplaceable"
)

// DecisionKinds are what a Reconciler decides, as Decisions counts it; those that
// end in _ are followed by a reason.
func DecisionKinds() []string {
	return []string{
		decidedPublished, decidedBuried, decidedExpired, decidedAnnounced, decidedRebuilt, decidedRecreated, decidedSwept,
		decidedMonths, decidedRetired, decidedUnloaded,
	}
}

// Decisions counts what reconcilers did, by what it was. The zero value counts
// from nothing; its methods may be called from several goroutines.
type Decisions struct {
	mu sync.Mutex
	// counts is guarded by mu.
	counts map[string]int64
}

// Counts is how often each was decided so far: published_ and buried_ with the
// reason behind, expired, announced, rebuilt, consumers_recreated, rows_swept, months_dropped,
// jobs_retired, messages_removed.
func (d *Decisions) Counts() map[string]int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.counts)
}

func (d *Decisions) add(what string, n int) {
	if n == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.counts == nil {
		d.counts = map[string]int64{}
	}
	d.counts[what] += int64(n)
}
