package queue

import (
	"context"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"

	"airlock/job"
)

// Who may decide about tool calls may be somebody else than who submits jobs,
// so decisions have subjects of their own. The list of what waits is asked for
// like the rest of the history.
const (
	verbApprovals = "approvals"
	verbDecide    = "decide"
)

// Decide hands a person's decision to the workers, and decodes their answer
// into response. Its errors are those of Ask, and wrap ErrNoApprover when the
// server does not let this user decide.
func (q *Queue) Decide(ctx context.Context, tenant string, d job.Decision, response any) error {
	subject, err := questionSubject(prefixApproval, tenant, verbDecide)
	if err != nil {
		return fmt.Errorf("decide: %w", err)
	}
	// What is refused brings no answer.
	allowed, err := q.mayAsk(ctx, subject)
	if err != nil {
		return fmt.Errorf("decide: %w", err)
	}
	if !allowed {
		return fmt.Errorf("decide for tenant %s: %w", tenant, ErrNoApprover)
	}
	return q.ask(ctx, prefixApproval, tenant, verbDecide, d, response)
}

// AnswerDecisions takes decisions until ctx ends, as Answer does questions.
func (q *Queue) AnswerDecisions(ctx context.Context, answer Answer) error {
	answering, err := q.answering(prefixApproval, decideGroup, map[string]Answer{verbDecide: answer})
	if err != nil {
		return fmt.Errorf("answer decisions: %w", err)
	}
	return answering.run(ctx)
}

// AnnounceDecision tells all workers that something was decided about a call
// of the job. The message says no more, and may get lost.
func (q *Queue) AnnounceDecision(id job.ID) error {
	if err := q.nc.Publish(prefixDecided+"."+id.String(), nil); err != nil {
		return fmt.Errorf("announce a decision: %w", err)
	}
	return nil
}

// WatchDecisions calls heard, from one goroutine, for each job about whose
// calls something was decided, until ctx ends.
func (q *Queue) WatchDecisions(ctx context.Context, heard func(job.ID)) error {
	messages := make(chan *nats.Msg, 256)
	sub, err := q.nc.ChanSubscribe(prefixDecided+".*", messages)
	if err != nil {
		return fmt.Errorf("watch decisions: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }() // a closed connection has none
	for {
		select {
		case msg := <-messages:
			if id, err := job.ParseID(strings.TrimPrefix(msg.Subject, prefixDecided+".")); err == nil {
				heard(id)
			}
		case <-ctx.Done():
			return nil
		}
	}
}
