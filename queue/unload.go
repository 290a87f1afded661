package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"airlock/job"
)

const (
	unloadBatch = 100
	// unloadTime bounds one Unload, and unloadDelay is how long it puts off
	// what it leaves: longer, so that it meets nothing twice.
	unloadTime  = 20 * time.Second
	unloadDelay = 25 * time.Second
)

// Unload takes out of a lane the messages of jobs that need no run: those that
// void says are so, and what is no job. It is for lanes that no worker serves,
// where nobody else would; a worker that comes meanwhile gets what is left up
// to half a minute later. It returns how many it took out, and goes on with the
// rest when it is called again.
func (q *Queue) Unload(ctx context.Context, lane string, void func(context.Context, []job.Queued) ([]bool, error)) (int, error) {
	defer q.flush()
	stored, err := q.stored(ctx)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, unloadTime)
	defer cancel()
	pulls, err := q.newPuller(4 * unloadBatch)
	if err != nil {
		return 0, fmt.Errorf("unload lane %s: %w", lane, err)
	}
	defer pulls.close()
	total := 0
	for p, left := range stored {
		if p.lane != lane {
			continue
		}
		s, err := q.openSource(ctx, p)
		if err != nil {
			return total, fmt.Errorf("unload lane %s: %w", lane, err)
		}
		for n := 1; left > 0 && n > 0 && ctx.Err() == nil; left -= n {
			var gone int
			n, gone, err = q.unload(ctx, pulls, s, min(left, unloadBatch), void)
			total += gone
			if err != nil {
				return total, fmt.Errorf("unload lane %s: %w", lane, err)
			}
		}
	}
	return total, nil
}

// unload looks at up to most messages of a place.
func (q *Queue) unload(ctx context.Context, pulls *puller, s *source, most int, void func(context.Context, []job.Queued) ([]bool, error)) (seen, gone int, err error) {
	question, err := pulls.ask(s.consumer, most, 0)
	if err != nil {
		return 0, 0, err
	}
	batch, ended := pulls.gather(ctx, question, most, requestTimeout)
	var msgs []*message
	var jobs []job.Queued
	for _, msg := range batch {
		seen++
		a, raw, err := q.readArrival(ctx, msg, prefixJobs)
		switch {
		case errors.Is(err, errMalformed):
			q.cfg.Log.Warn().Err(err).Str("subject", job.Printable(msg.Subject(), 200)).Msg("malformed job taken out of the queue")
			if msg.TermWithReason("malformed") == nil {
				gone++
			}
		case err != nil:
			q.putBack(msg)
		default:
			msgs, jobs = append(msgs, msg), append(jobs, job.Queued{Job: a.job, Spec: raw, Generation: a.generation, At: a.at})
		}
	}
	if ended != nil {
		for _, msg := range msgs {
			q.putBack(msg)
		}
		return seen, gone, ended
	}
	if len(jobs) == 0 {
		return seen, gone, nil
	}
	dead, err := void(ctx, jobs)
	for i, msg := range msgs {
		if err != nil || !dead[i] {
			q.putBack(msg)
			continue
		}
		if ack := ackDelivery(ctx, msg); ack != nil {
			err = ack
			continue
		}
		gone++
	}
	return seen, gone, err
}

func (q *Queue) putBack(msg *message) {
	if err := msg.NakWithDelay(unloadDelay); err != nil {
		q.cfg.Log.Debug().Err(err).Msg("job could not be put back, the queue will deliver it again")
	}
}
