package worker

import (
	"context"
	"time"

	"airlock/job"
)

const (
	// inspectEvery is how often queue and ledger are held against each other,
	// unless that takes long: then it is given a twentieth of the time.
	inspectEvery = 5 * time.Second
	inspectShare = 20
	// settled is how old a job must be to be missed in the queue.
	settled = 10 * time.Second
	// missedThrice: a lane must lack jobs in so many inspections in a row.
	// One job may be seen in the ledger before the queue, and only once.
	missedThrice = 3
	// placementGrace is how long a lane must have been without a worker under
	// this reconciler's eyes: after a restart of the whole fleet the leader is
	// there before the others.
	placementGrace = 5 * time.Minute
	sweepEvery     = time.Hour
)

// Fleet is what the reconciler asks of the queue.
type Fleet interface {
	// Stock counts the jobs in the queue, waiting or running, by lane.
	Stock(ctx context.Context) (map[string]int, error)
	// Served reports whether a live worker can run the lane's jobs.
	Served(lane string) bool
	// Mend makes consumers anew that are stuck, and returns their names.
	Mend(ctx context.Context) ([]string, error)
	// Unload takes the messages out of a lane that are void, and returns how
	// many.
	Unload(ctx context.Context, lane string, void func(context.Context, []job.Queued) ([]bool, error)) (int, error)
}

// inspector holds the queue against the ledger, for one term of leading.
type inspector struct {
	*Reconciler
	// missing counts the inspections in a row that found a lane to lack jobs.
	missing map[string]int
	// surplus counts those that found it to have too many.
	surplus map[string]int
	// unserved is since when a lane has been without a worker.
	unserved map[string]time.Time
	next     time.Time
	swept    time.Time
	// retireAt is when old history is dropped next, and keptMonths why a month
	// was not, as it was last said.
	retireAt   time.Time
	keptMonths map[string]string
}

func (r *Reconciler) inspector() *inspector {
	return &inspector{Reconciler: r, missing: map[string]int{}, surplus: map[string]int{}, unserved: map[string]time.Time{}, swept: time.Now(),
		keptMonths: map[string]string{}}
}

func (i *inspector) inspectWhenDue(ctx context.Context) {
	began := time.Now()
	if began.Before(i.next) {
		return
	}
	i.inspect(ctx)
	i.next = time.Now().Add(max(inspectEvery, inspectShare*time.Since(began)))
}

func (i *inspector) inspect(ctx context.Context) {
	if names, err := i.Fleet.Mend(ctx); err != nil {
		i.warn(ctx, err, "consumers not inspected")
	} else {
		i.Decisions.add(decidedRecreated, len(names))
		if len(names) > 0 {
			i.Log.Warn().Strs("consumers", names).Msg("stuck consumers are made anew")
		}
	}
	if time.Since(i.swept) > sweepEvery {
		i.sweep(ctx)
	}
	i.retire(ctx)
	// The queue is counted first: what the ledger then has, and had for a
	// while, must have been in it.
	stock, err := i.Fleet.Stock(ctx)
	if err != nil {
		i.warn(ctx, err, "queue not counted")
		return
	}
	waiting, err := i.Backlog.Waiting(ctx, settled)
	if err != nil {
		i.warn(ctx, err, "waiting jobs not counted")
		return
	}
	i.compare(ctx, stock, waiting)
	i.place(ctx, waiting)
	i.unload(ctx, stock, waiting)
}

// compare rebuilds the lanes that lack jobs again and again: the queue has lost
// its store, or a part of it.
func (i *inspector) compare(ctx context.Context, stock, waiting map[string]int) {
	for lane := range i.missing {
		if waiting[lane] <= stock[lane] {
			delete(i.missing, lane)
		}
	}
	for lane, count := range waiting {
		if count <= stock[lane] {
			continue
		}
		if i.missing[lane]++; i.missing[lane] >= missedThrice {
			delete(i.missing, lane)
			i.rebuild(ctx, lane, count, stock[lane])
		}
	}
}

// rebuild owes the queue all jobs of a lane anew. Those it takes are no longer
// counted as waiting until they are published, so that it begins no second
// time meanwhile.
func (i *inspector) rebuild(ctx context.Context, lane string, want, got int) {
	total := 0
	for {
		n, err := i.Backlog.RebuildLane(ctx, lane, settled, reconcileBatch)
		total += n
		if err != nil {
			i.warn(ctx, err, "lane not rebuilt")
		}
		if err != nil || n < reconcileBatch {
			break
		}
	}
	i.Decisions.add(decidedRebuilt, total)
	i.Log.Warn().Str(fieldLane, lane).Int("waiting", want).Int("in_queue", got).Int(fieldCount, total).
		Msg("the queue has lost jobs: they are published again")
}

// place ends the jobs that have waited too long for a worker which could run
// them.
func (i *inspector) place(ctx context.Context, waiting map[string]int) {
	for lane := range i.unserved {
		if waiting[lane] == 0 || i.Fleet.Served(lane) {
			delete(i.unserved, lane)
		}
	}
	if i.PlacementDeadline <= 0 {
		return
	}
	for lane := range waiting {
		if i.Fleet.Served(lane) {
			continue
		}
		since, known := i.unserved[lane]
		if !known {
			i.unserved[lane] = time.Now()
			continue
		}
		if time.Since(since) >= min(placementGrace, i.PlacementDeadline) {
			i.bury(ctx, lane)
		}
	}
}

func (i *inspector) bury(ctx context.Context, lane string) {
	n, err := i.Backlog.BuryUnplaceable(ctx, lane, i.PlacementDeadline, reconcileBatch)
	if err != nil {
		i.warn(ctx, err, "unplaceable jobs not ended")
		return
	}
	if n > 0 {
		i.Decisions.add(decidedBuried+reasonUnplaceable, n)
		i.Log.Warn().Str(fieldLane, lane).Int(fieldCount, n).Dur("waited", i.PlacementDeadline).Msg("jobs ended: no worker can run them")
	}
}

func (i *inspector) sweep(ctx context.Context) {
	n, err := i.Backlog.Sweep(ctx)
	if err != nil {
		i.warn(ctx, err, "rows not swept")
		return
	}
	i.swept = time.Now()
	i.Decisions.add(decidedSwept, n)
	if n > 0 {
		i.Log.Info().Int(fieldCount, n).Msg("rows swept")
	}
}
