package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go/jetstream"

	"airlock/job"
)

// Receipt says what became of a submitted job.
type Receipt struct {
	// Job is the id under which the job is in the queue: the submitted one,
	// or the earlier one's when Known.
	Job  job.ID
	Lane string
	// Known is set when the tenant submitted the same content under the same
	// key before. It may have ended already; its result is in the history.
	Known bool
}

// SubmitOptions change how Submit treats a job.
type SubmitOptions struct {
	// Park accepts a job that no live worker can run: it waits for one.
	Park bool
}

// Submit puts a job that went through Prepare into the queue and returns when
// the queue has stored it. While the server is away it waits for half a
// minute, or until ctx ends. Submitting the same job again is harmless: the
// queue or the database drops the copy.
//
// Its error is an *UnplaceableError, a *ConflictError, a *QuotaError, a
// *FullError or a *job.FieldError, or wraps ErrOverQuota, ErrQueueFull, ErrTooLarge or ErrTooManyLanes, or the
// context's.
func (q *Queue) Submit(ctx context.Context, j *job.Job, opt SubmitOptions) (Receipt, error) {
	if j.ID.IsZero() {
		return Receipt{}, errors.New("submit: the job was not prepared")
	}
	// Checked again, since a worker would refuse what Prepare does, and nobody
	// would learn of it.
	published := *j
	if err := published.Prepare(time.Now()); err != nil {
		return Receipt{}, fmt.Errorf("submit: %w", err)
	}
	j = &published
	body, err := encodeJob(j)
	if err != nil {
		return Receipt{}, err
	}
	if !opt.Park {
		if err := q.Placeable(ctx, j); err != nil {
			return Receipt{}, err
		}
	}
	receipt := Receipt{Job: j.ID, Lane: j.Requires.Lane()}
	if j.Key != "" {
		earlier, err := q.claimKey(ctx, j)
		if err != nil {
			return Receipt{}, err
		}
		receipt.Job, receipt.Known = earlier, earlier != j.ID
	}
	if err := q.announceLane(ctx, j.Tenant, j.Requires); err != nil {
		return Receipt{}, err
	}
	// A known job is published too, under its first id: had the first
	// submitter died before its publish, the job would be lost for good.
	if receipt.Known {
		published.ID = receipt.Job
		if body, err = encodeJob(j); err != nil {
			return Receipt{}, err
		}
	}
	err = q.enqueue(ctx, j, body, 1)
	switch {
	case errors.Is(err, ErrOverQuota):
		err = q.explainQuota(ctx, j, err)
	case errors.Is(err, ErrQueueFull):
		err = q.explainFull(ctx, j, err)
	}
	if err != nil {
		return Receipt{}, err
	}
	return receipt, nil
}

// claim is the value of a key.
type claim struct {
	Job    job.ID `json:"job"`
	Digest string `json:"digest"`
}

// keyTries bounds the race with a key that expires just now.
const keyTries = 3

// claimKey takes the job's key, or finds whose it is: it returns the id that
// the key stands for.
func (q *Queue) claimKey(ctx context.Context, j *job.Job) (job.ID, error) {
	key, err := keyOf(j.Tenant, j.Key)
	if err != nil {
		return job.ID{}, err
	}
	digest, err := j.ContentDigest()
	if err != nil {
		return job.ID{}, fmt.Errorf("digest job: %w", err)
	}
	value, err := json.Marshal(claim{Job: j.ID, Digest: digest})
	if err != nil {
		return job.ID{}, fmt.Errorf("encode key: %w", err)
	}
	for range keyTries {
		var taken []byte
		if taken, err = q.createKey(ctx, j.Tenant, key, value); err == nil && taken == nil {
			return j.ID, nil
		}
		if err == nil {
			return compareClaim(j, digest, taken)
		}
		// A request that a restart of the server swallowed is made again; if
		// it had arrived after all, the key is found to be ours.
		lost := errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil
		if !lost && !errors.Is(err, jetstream.ErrKeyNotFound) {
			break
		}
	}
	return job.ID{}, fmt.Errorf("claim key: %w", err)
}

// createKey makes the key, or returns the value that it has already.
func (q *Queue) createKey(ctx context.Context, tenant, key string, value []byte) (taken []byte, err error) {
	err = q.once(ctx, func(ctx context.Context) error {
		_, err := q.js.Publish(ctx, bucketSubject(bucketKeys, key), value, jetstream.WithExpectLastSequencePerSubject(0))
		return err
	})
	if !keyTaken(err) {
		return nil, err
	}
	if q.attached {
		return q.askKey(ctx, tenant, key)
	}
	return q.readKey(ctx, key)
}

// keyTaken knows both codes of one refusal: of a stream alone, and of one with
// replicas.
func keyTaken(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && (api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence ||
		api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}

// readKey returns a key's value; the error is jetstream.ErrKeyNotFound when it
// has expired.
func (q *Queue) readKey(ctx context.Context, key string) ([]byte, error) {
	entry, err := q.keysKV.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	return entry.Value(), nil
}

func compareClaim(j *job.Job, digest string, value []byte) (job.ID, error) {
	var earlier claim
	if err := job.DecodeStrict(value, &earlier); err != nil {
		return job.ID{}, fmt.Errorf("decode key: %w", err)
	}
	if earlier.Job.IsZero() || earlier.Digest == "" {
		return job.ID{}, errors.New("decode key: it names no job")
	}
	if earlier.Digest != digest {
		return job.ID{}, &ConflictError{Key: j.Key, Earlier: earlier.Job}
	}
	return earlier.Job, nil
}
