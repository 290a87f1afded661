package queue

import (
	"context"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
)

// takesParts is what a question says in headerParts whose asker takes a long
// answer in parts. One that does not say so is given a stored blob, which takes
// the worker an acknowledgement a part, and the asker further questions: 80 ms
// more for the list of 5,000 tools.
const takesParts = "yes"

// requestParts puts a question to one worker, once, and returns its answer,
// which may have come in parts.
func (q *Queue) requestParts(ctx context.Context, subject string, body []byte) (*nats.Msg, error) {
	inbox := q.nc.NewInbox()
	sub, err := q.nc.SubscribeSync(inbox)
	if err != nil {
		return nil, err
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only when the connection is gone
	// What arrives is bounded by maxReply.
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		return nil, err
	}
	question := nats.NewMsg(subject)
	question.Reply, question.Data = inbox, body
	question.Header.Set(headerParts, takesParts)
	if err := q.nc.PublishMsg(question); err != nil {
		return nil, err
	}
	reply, err := sub.NextMsgWithContext(ctx)
	if err != nil || reply.Header.Get(headerParts) == "" {
		return reply, err
	}
	return joinParts(ctx, sub, reply)
}

// joinParts adds to the first part of an answer all others.
func joinParts(ctx context.Context, sub *nats.Subscription, answer *nats.Msg) (*nats.Msg, error) {
	count, err := strconv.Atoi(answer.Header.Get(headerParts))
	if err != nil || count < 1 || count > maxParts {
		return nil, fmt.Errorf("the answer says that it has %q parts", answer.Header.Get(headerParts))
	}
	for part := 1; part < count; part++ {
		next, err := nextPart(ctx, sub)
		if err != nil {
			return nil, fmt.Errorf("take part %d of %d of the answer: %w", part+1, count, err)
		}
		if answer.Data = append(answer.Data, next.Data...); len(answer.Data) > int(maxReply) {
			return nil, fmt.Errorf("%w: the answer exceeds %s", ErrTooLarge, maxReply)
		}
	}
	return answer, nil
}
