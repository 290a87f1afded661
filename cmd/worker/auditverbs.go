package main

import (
	"context"
	"time"

	"airlock/broker"
	"airlock/job"
	"airlock/queue"
)

const (
	// auditJobs bounds how many jobs one answer about the audit is of, and
	// auditTime after what time none is begun any more: whoever asks goes on
	// from Audit.Next.
	auditJobs = 200
	auditTime = 3 * time.Second
	// auditFaults bounds what one answer tells.
	auditFaults = 200
)

// replayOf asks how a replay went.
type replayOf struct {
	ID     job.ID `json:"id"`
	Replay job.ID `json:"replay"`
}

// auditVerbs answer about what is recorded of calls.
func (p *pool) auditVerbs() map[string]queue.Answer {
	return map[string]queue.Answer{
		"audit": verb(inTurn(p.audit)),
		"spec": verb(func(ctx context.Context, tenant string, r jobOrBatch) (any, error) {
			return p.store.Spec(ctx, tenant, r.ID)
		}),
		"divergence": verb(inTurn(p.divergence)),
	}
}

// inTurn has one question answered after the other: each holds a connection
// for long, and the claims and heartbeats of this worker need theirs.
func inTurn[R any](answer func(context.Context, string, R) (any, error)) func(context.Context, string, R) (any, error) {
	turn := make(chan struct{}, 1)
	return func(ctx context.Context, tenant string, request R) (any, error) {
		select {
		case turn <- struct{}{}:
			defer func() { <-turn }()
			return answer(ctx, tenant, request)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// divergence compares an ended job with its replay: the calls first, then what
// they led to.
func (p *pool) divergence(ctx context.Context, tenant string, r replayOf) (any, error) {
	before, err := p.store.Result(ctx, tenant, r.ID)
	if err != nil {
		return nil, err
	}
	after, err := p.store.Result(ctx, tenant, r.Replay)
	if err != nil {
		return nil, err
	}
	first, calls, err := broker.Diverged(ctx, p.store, tenant, r.ID, r.Replay)
	if err != nil {
		return nil, err
	}
	if first == nil {
		first = broker.DivergedResult(before, after)
	}
	return job.Replay{Job: r.ID, Replay: r.Replay, Calls: calls, Equal: first == nil, Divergence: first}, nil
}

// audit verifies the chains of some jobs. Each begun job is verified whole.
func (p *pool) audit(ctx context.Context, tenant string, scope job.AuditScope) (any, error) {
	attempts, next, err := p.store.Audited(ctx, tenant, scope, auditJobs)
	if err != nil {
		return nil, err
	}
	answer := job.Audit{Next: next}
	begun := time.Now()
	var last job.ID
	for _, a := range attempts {
		if a.Job != last {
			if full := len(answer.Faults) >= auditFaults || time.Since(begun) > auditTime; full && answer.Jobs > 0 {
				answer.Next = last
				return answer, nil
			}
			last = a.Job
			answer.Jobs++
		}
		if err := p.auditAttempt(ctx, a, &answer); err != nil {
			return nil, err
		}
	}
	return answer, nil
}

func (p *pool) auditAttempt(ctx context.Context, a job.Sealed, into *job.Audit) error {
	v, calls := broker.NewVerifier(a.Job, a.Attempt), 0
	err := p.store.ReadChain(ctx, a.Job, a.Attempt,
		func(c job.Call) error { v.Link(&c); return nil },
		func(c job.Call) error { v.Call(&c); calls++; return nil })
	if err != nil {
		return err
	}
	faults, all := v.Faults(a)
	into.Attempts++
	into.Calls += calls
	into.Faulty += all
	into.Faults = append(into.Faults, faults...)
	if a.Head == "" {
		into.Unsealed++
	}
	return nil
}
