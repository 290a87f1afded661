package main

import (
	"context"
	"fmt"
	"time"

	"airlock/job"
	"airlock/queue"
)

// cancelCmd cancels a job or a batch.
type cancelCmd struct {
	Target string `arg:"" placeholder:"JOB|BATCH" help:"A job's id or a batch's name."`
}

// Help is the long text of submit cancel --help.
func (*cancelCmd) Help() string {
	return `The wish is recorded in the queue, where running guests are reached and later arrivals are stopped; then the
workers are asked to end what still waits. What has ended stays as it is. It may be asked again.`
}

// batchRequest is the request of the verbs about a batch.
type batchRequest struct {
	Batch string `json:"batch"`
}

// Run implements the command.
func (c *cancelCmd) Run(ctx context.Context, a *app) error {
	target, request, err := c.parse()
	if err != nil {
		return err
	}
	s, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.Cancel(ctx, s.tenant, target); err != nil {
		return err
	}
	var met job.Cancelled
	err = s.askSettled(ctx, time.Now().Add(settle), "cancel", request, &met)
	switch {
	case isNotFound(err):
		return usageError("%s is not known; should it arrive later, it is cancelled then", c.Target)
	case err != nil && ctx.Err() == nil:
		a.talk.say("recorded, and running guests are reached; what waits ends when a worker takes it (%v)", err)
		return nil
	case err != nil:
		return err
	}
	if a.flags.JSON {
		return a.stdout.document(met)
	}
	return a.stdout.text(fmt.Sprintf("ended at once: %d, running and told: %d, ended before: %d\n", met.Ended, met.Running, met.Already))
}

func (c *cancelCmd) parse() (queue.CancelTarget, any, error) {
	if id, err := job.ParseID(c.Target); err == nil {
		return queue.CancelTarget{Job: id}, idRequest{id}, nil
	}
	if job.ValidName(c.Target) {
		return queue.CancelTarget{Batch: c.Target}, batchRequest{c.Target}, nil
	}
	return queue.CancelTarget{}, nil, usageError("%q is neither a job's id nor a batch's name", c.Target)
}

// requeueCmd revives a dead job.
type requeueCmd struct {
	Job job.ID `arg:"" help:"The job's id."`
}

// Run implements the command.
func (c *requeueCmd) Run(ctx context.Context, a *app) error {
	s, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	var requeued struct {
		Generation int `json:"generation"`
	}
	if err := s.ask(ctx, "requeue", idRequest{c.Job}, &requeued); err != nil {
		return err
	}
	if a.flags.JSON {
		return a.stdout.document(requeued)
	}
	return a.stdout.text(fmt.Sprintf("job %s is queued again, generation %d\n", c.Job, requeued.Generation))
}
