package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"airlock/job"
	"airlock/queue"
)

// The pauses between two tries to submit a job.
const (
	firstPause = 50 * time.Millisecond
	longPause  = 5 * time.Second
	// tryTime bounds one try. It may have to upload some MiB, but a request
	// that a restarting server lost is answered by nobody.
	tryTime = 10 * time.Second
)

// submit publishes the job and outlasts what passes by itself: a full queue,
// a used-up quota, a lost connection. It returns only an error that another
// try would give again, or ctx's.
func (s *session) submit(ctx context.Context, j *job.Job, park bool) (queue.Receipt, error) {
	wait := firstPause
	for {
		receipt, err := s.trySubmit(ctx, j, park)
		if receipt.Job == j.ID {
			// An earlier try of ours got through without our knowing.
			receipt.Known = false
		}
		if err == nil || ctx.Err() != nil {
			return receipt, errors.Join(err, ctx.Err())
		}
		if permanent(err) {
			return receipt, err
		}
		s.talk.seldom(reason(err), "waiting: %v", err)
		pause(ctx, jitter(wait))
		wait = min(2*wait, longPause)
	}
}

func (s *session) trySubmit(ctx context.Context, j *job.Job, park bool) (queue.Receipt, error) {
	limited, cancel := context.WithTimeout(ctx, tryTime)
	defer cancel()
	return s.Submit(limited, j, queue.SubmitOptions{Park: park})
}

// permanent reports whether another try would end the same way.
func permanent(err error) bool {
	var (
		field       *job.FieldError
		conflict    *queue.ConflictError
		unplaceable *queue.UnplaceableError
	)
	return errors.As(err, &field) || errors.As(err, &conflict) || errors.As(err, &unplaceable) ||
		errors.Is(err, queue.ErrTooLarge) || errors.Is(err, queue.ErrTooManyLanes) || errors.Is(err, queue.ErrClosed)
}

// reason groups the errors that are said only now and then.
func reason(err error) string {
	switch {
	case errors.Is(err, queue.ErrOverQuota):
		return "quota"
	case errors.Is(err, queue.ErrQueueFull):
		return "full"
	}
	return "connection"
}

// jitter keeps many waiters from coming back all at once.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }
