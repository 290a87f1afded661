package main

import (
	"context"

	"airlock/broker"
	"airlock/job"
)

// toldAudit tells of calls once they are recorded, and so that nobody hears of
// one that the history does not have.
type toldAudit struct {
	broker.Auditor
	tell func(*job.Job, job.News)
}

// CallStarted implements broker.Auditor.
func (t toldAudit) CallStarted(ctx context.Context, a *job.Attempt, c job.Call) error {
	err := t.Auditor.CallStarted(ctx, a, c)
	if err == nil {
		t.tell(a.Job, job.CallNews(&c))
	}
	return err
}

// CallEnded implements broker.Auditor.
func (t toldAudit) CallEnded(ctx context.Context, a *job.Attempt, c job.Call) error {
	err := t.Auditor.CallEnded(ctx, a, c)
	if err == nil {
		t.tell(a.Job, job.CallNews(&c))
	}
	return err
}
