package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"

	"airlock/job"
)

// CancelTarget names a job or a batch; exactly one is set.
type CancelTarget struct {
	Job   job.ID
	Batch string
}

// cancellation is an entry of CANCELS.
type cancellation struct {
	// At is by the clock of whoever asked. It is compared with the times in
	// jobs' ids, which are often by the same clock.
	At time.Time `json:"at"`
}

func decodeCancellation(key string, value []byte) (cancellation, error) {
	var c cancellation
	if _, _, err := parseCancelKey(key); err != nil {
		return c, err
	}
	if err := job.DecodeStrict(value, &c); err != nil {
		return c, fmt.Errorf("decode cancellation: %w", err)
	}
	if c.At.IsZero() {
		return c, errors.New("decode cancellation: it has no time")
	}
	return c, nil
}

// Cancel asks that a job, or all jobs of a batch made so far, be cancelled,
// waiting or running. It may be called again, also for what has ended or never
// was. The wish is remembered for seven days.
func (q *Queue) Cancel(ctx context.Context, tenant string, target CancelTarget) error {
	key, err := target.key(tenant)
	if err != nil {
		return err
	}
	value, err := json.Marshal(cancellation{At: time.Now()})
	if err != nil {
		return fmt.Errorf("encode cancellation: %w", err)
	}
	// Written as the library does, which would want to read the bucket first.
	err = q.once(ctx, func(ctx context.Context) error {
		_, err := q.js.Publish(ctx, bucketSubject(bucketCancels, key), value)
		return err
	})
	if err != nil {
		return fmt.Errorf("cancel: %w", err)
	}
	return nil
}

// Cancels calls onCancel, from one goroutine, for every cancellation that is
// remembered and for each that comes, until ctx ends. Every few minutes it
// calls it for all of them again. A batch's cancellation does not concern
// jobs made after it: ask Cancelled for each.
func (q *Queue) Cancels(ctx context.Context, onCancel func(tenant string, t CancelTarget)) error {
	watch := newView(q.cancelsKV, q.cfg.Log, decodeCancellation)
	watch.onPut = func(key string, c cancellation) {
		if q.cancels != nil {
			q.cancels.put(key, c) // so that Cancelled is not behind onCancel
		}
		if tenant, target, err := parseCancelKey(key); err == nil {
			onCancel(tenant, target)
		}
	}
	watch.run(ctx)
	return nil
}

// Cancelled reports whether somebody cancelled the job, or its batch after the
// job was made. It costs no round trip and may be some milliseconds behind
// Cancel. It is for queues that were opened; one that was attached to does not
// watch and answers false.
func (q *Queue) Cancelled(tenant string, j *job.Job) bool {
	if q.cancels == nil {
		return false
	}
	if key, err := (CancelTarget{Job: j.ID}).key(tenant); err == nil {
		if _, ok := q.cancels.lookup(key); ok {
			return true
		}
	}
	if j.Batch == "" {
		return false
	}
	key, err := CancelTarget{Batch: j.Batch}.key(tenant)
	if err != nil {
		return false
	}
	c, ok := q.cancels.lookup(key)
	return ok && !j.ID.Time().After(c.At)
}
