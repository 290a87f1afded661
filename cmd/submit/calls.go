package main

import (
	"cmp"
	"context"
	"time"

	"airlock/job"
)

// callsCmd shows the audit of one job's tool calls.
type callsCmd struct {
	Job job.ID `arg:"" help:"The job's id."`
}

// Run implements the command.
func (c *callsCmd) Run(ctx context.Context, a *app) error {
	s, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	var answer struct {
		Calls []job.Call `json:"calls"`
	}
	if err := s.askJob(ctx, "calls", c.Job, &answer); err != nil {
		return err
	}
	return list(a, answer.Calls, "no tool calls", newGrid("attempt", "seq", "tool", "state", "took", "arguments", "answer"),
		func(g grid, call job.Call) {
			g.add(call.Attempt, call.Seq, call.Namespace+"."+call.Name, call.State, callTime(call), call.Arguments, callAnswer(call))
		})
}

func callTime(c job.Call) time.Duration {
	if c.Ended.IsZero() {
		return 0
	}
	return c.Ended.Sub(c.Started)
}

// callAnswer is what came back, or why nothing did.
func callAnswer(c job.Call) string {
	if c.Code != "" {
		return c.Code + ": " + c.Message
	}
	return cmp.Or(string(c.Answer), c.Message)
}
