package main

import (
	"context"
	"errors"
	"maps"

	"airlock/job"
	"airlock/queue"
	"airlock/store"
)

// The error codes of the control verbs, beside those of the queue.
const (
	codeNotFound = "not_found"
	codeConflict = "conflict"
)

// maxListed bounds one answer that lists; whoever wants more asks again.
const maxListed = 1000

// The requests: a listing of a batch, one job or batch, or a file of a job's
// result.
type (
	listing struct {
		Batch string `json:"batch,omitzero"`
		After job.ID `json:"after,omitzero"`
		Limit int    `json:"limit,omitzero"`
	}
	jobOrBatch struct {
		ID    job.ID `json:"id,omitzero"`
		Batch string `json:"batch,omitzero"`
	}
	artifactOf struct {
		ID   job.ID `json:"id"`
		Path string `json:"path"`
	}
)

// verbs answers the control requests from the history. The tenant comes from
// the subject, which NATS permissions guard; it never comes from the body.
func (p *pool) verbs() map[string]queue.Answer {
	verbs := map[string]queue.Answer{
		"status": verb(func(ctx context.Context, tenant string, r jobOrBatch) (any, error) {
			return p.store.Job(ctx, tenant, r.ID)
		}),
		"result": verb(func(ctx context.Context, tenant string, r jobOrBatch) (any, error) {
			return p.store.Result(ctx, tenant, r.ID)
		}),
		"artifact": verb(func(ctx context.Context, tenant string, r artifactOf) (any, error) {
			content, err := p.store.Artifact(ctx, tenant, r.ID, r.Path)
			return map[string][]byte{"content": content}, err
		}),
		"calls": verb(func(ctx context.Context, tenant string, r jobOrBatch) (any, error) {
			calls, err := p.store.Calls(ctx, tenant, r.ID)
			return map[string][]job.Call{"calls": calls}, err
		}),
		"batch": verb(func(ctx context.Context, tenant string, r listing) (any, error) {
			return p.store.Batch(ctx, tenant, r.Batch)
		}),
		"results": verb(func(ctx context.Context, tenant string, r listing) (any, error) {
			results, err := p.store.BatchResults(ctx, tenant, r.Batch, r.After, r.limit())
			return map[string][]*job.Result{"results": results}, err
		}),
		"history": verb(func(ctx context.Context, tenant string, f job.Filter) (any, error) {
			jobs, err := p.store.History(ctx, tenant, f)
			return map[string][]job.Record{"jobs": jobs}, err
		}),
		"dead": verb(func(ctx context.Context, tenant string, r listing) (any, error) {
			jobs, err := p.store.Dead(ctx, tenant, r.limit())
			return map[string][]job.Record{"jobs": jobs}, err
		}),
		"tools":     verb(p.listTools),
		"approvals": verb(p.listApprovals),
		"cancel":    verb(p.cancel),
		"requeue":   verb(p.requeue),
	}
	maps.Copy(verbs, p.auditVerbs())
	return verbs
}

func (l listing) limit() int {
	if l.Limit <= 0 || l.Limit > maxListed {
		return maxListed
	}
	return l.Limit
}

// cancel says what it met. What had ended before is counted a moment before
// the rest, so a job that ends in between may be counted as ended by this.
func (p *pool) cancel(ctx context.Context, tenant string, r jobOrBatch) (any, error) {
	if r.Batch != "" {
		before, err := p.store.Batch(ctx, tenant, r.Batch)
		if err != nil {
			return nil, err
		}
		states, err := p.store.CancelBatch(ctx, tenant, r.Batch)
		return cancelled(before.States, states), err
	}
	before, err := p.store.Job(ctx, tenant, r.ID)
	if err != nil {
		return nil, err
	}
	state, err := p.store.Cancel(ctx, tenant, r.ID)
	return cancelled(map[job.State]int{before.State: 1}, map[job.State]int{state: 1}), err
}

func cancelled(before, after map[job.State]int) job.Cancelled {
	already := before[job.StateFinished] + before[job.StateDead]
	return job.Cancelled{
		Already: already,
		Ended:   max(0, after[job.StateFinished]+after[job.StateDead]-already),
		Running: after[job.StateRunning],
	}
}

func (p *pool) requeue(ctx context.Context, tenant string, r jobOrBatch) (any, error) {
	again, err := p.store.Requeue(ctx, tenant, r.ID)
	if err != nil {
		return nil, err
	}
	// If this publish is lost the reconciler finds the row and repeats it.
	if err := p.queue.Republish(ctx, again); err != nil {
		return nil, err
	}
	return map[string]int{"generation": again.Generation}, p.store.Republished(ctx, again.Job.ID, again.Generation)
}

// verb decodes a request strictly and translates the ledger's errors.
func verb[R any](answer func(ctx context.Context, tenant string, request R) (any, error)) queue.Answer {
	return func(ctx context.Context, tenant string, body []byte) (any, error) {
		var request R
		if err := job.CheckJSON(body); err != nil {
			return nil, err
		}
		if err := job.DecodeStrict(body, &request); err != nil {
			return nil, err
		}
		response, err := answer(ctx, tenant, request)
		return response, remote(err)
	}
}

func remote(err error) error {
	switch {
	case errors.Is(err, store.ErrNotFound):
		return &queue.RemoteError{Code: codeNotFound, Message: "no such job, or nothing of that kind"}
	case errors.Is(err, store.ErrNotDead):
		return &queue.RemoteError{Code: codeConflict, Message: err.Error()}
	case errors.Is(err, job.ErrUnreachable):
		return &queue.RemoteError{Code: queue.CodeUnavailable, Message: "the history cannot be reached now"}
	}
	return err
}
