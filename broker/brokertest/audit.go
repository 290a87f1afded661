package brokertest

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"airlock/job"
)

// Audit keeps calls in memory. The zero value records everything.
type Audit struct {
	// StartErr and EndErr, if set, decide whether a record fails.
	StartErr, EndErr func(c job.Call) error
	// OnStart, if set, is called for each start that was recorded.
	OnStart func(c job.Call)

	mu    sync.Mutex
	calls map[int]job.Call // guarded by mu: by sequence
}

// CallStarted implements broker.Auditor.
func (a *Audit) CallStarted(ctx context.Context, _ *job.Attempt, c job.Call) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if a.StartErr != nil {
		if err := a.StartErr(c); err != nil {
			return err
		}
	}
	a.put(c)
	if a.OnStart != nil {
		a.OnStart(c)
	}
	return nil
}

// CallEnded implements broker.Auditor.
func (a *Audit) CallEnded(ctx context.Context, _ *job.Attempt, c job.Call) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if a.EndErr != nil {
		if err := a.EndErr(c); err != nil {
			return err
		}
	}
	a.put(c)
	return nil
}

func (a *Audit) put(c job.Call) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.calls == nil {
		a.calls = map[int]job.Call{}
	}
	a.calls[c.Seq] = c
}

// Calls are the recorded ones by sequence.
func (a *Audit) Calls() []job.Call {
	a.mu.Lock()
	defer a.mu.Unlock()
	var calls []job.Call
	for _, c := range a.calls {
		calls = append(calls, c)
	}
	slices.SortFunc(calls, func(x, y job.Call) int { return cmp.Compare(x.Seq, y.Seq) })
	return calls
}

// Nothing is an audit that keeps nothing.
type Nothing struct{}

// CallStarted implements broker.Auditor.
func (Nothing) CallStarted(context.Context, *job.Attempt, job.Call) error { return nil }

// CallEnded implements broker.Auditor.
func (Nothing) CallEnded(context.Context, *job.Attempt, job.Call) error { return nil }
