package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"airlock/job"
)

// The server reserves what each stream may take, and refuses one for which it
// has not the room. Together they then never reach its store's end, at which it
// refuses every write: jobs are refused before, and results and presence have
// room left. How large its store is it tells nobody, so that it is asked for
// less and less until it agrees.
const (
	mostRoom  = 16 * job.GiB
	leastRoom = 256 * job.KiB
	// leastBucket holds a fleet's lanes and workers.
	leastBucket = 128 * job.KiB

	// othersPatience is with another worker that makes no step.
	othersPatience = 10 * time.Second
	othersAgain    = 20 * time.Millisecond
)

// less is the next size to ask for.
func less(size int64) int64 { return size / 4 * 3 }

// share is how much of the disk a stream may take where JOBS takes size.
// QUEUED has a copy of each job until it is recorded.
func share(stream string, size int64) int64 {
	switch stream {
	case streamJobs, streamQueued, streamBlobs:
		return size
	case streamResults, streamOutputs:
		return size / 2
	case bucketStream(bucketKeys):
		return size / 8
	}
	return max(size/32, int64(leastBucket))
}

// setUpOn sets up on so many servers. Streams that are all there keep the bounds
// that they have, unless one of JOBS was asked for: several workers may be
// setting up at once, of which the first to be done decides.
func (q *Queue) setUpOn(ctx context.Context, replicas int) error {
	refused := false // what is there does not fit
	beaten := false  // JOBS is there, made by another or without a bound
	for size := int64(mostRoom); ; {
		bounds, whole, err := q.awaitBounds(ctx)
		if err != nil {
			return err
		}
		first := len(bounds) == 0 && !beaten
		whole = whole && !refused
		if !whole {
			clear(bounds)
		}
		if q.cfg.MaxBytes > 0 {
			bounds[streamJobs] = q.cfg.MaxBytes
		}
		if !whole {
			err = q.probeRoom(ctx, replicas, bounds, size, first)
		}
		if errors.Is(err, errNotFirst) {
			beaten = true
			continue
		}
		if err == nil {
			err = q.setUpWithin(ctx, replicas, bounds, size)
			refused = whole
		}
		if !noRoom(err) {
			return err
		}
		if size = less(size); size < int64(leastRoom) {
			return fmt.Errorf("%w: the server's store is too small for a queue: give it more, or say --queue-size", err)
		}
	}
}

// errNotFirst: another worker began to set up just now.
var errNotFirst = errors.New("another worker is setting up the queue")

// awaitBounds gives another worker that is setting up a moment to be done, from
// each of its steps on.
func (q *Queue) awaitBounds(ctx context.Context) (bounds map[string]int64, whole bool, err error) {
	patience := othersPatience/8 + rand.N(othersPatience)
	giveUp := time.Now().Add(patience)
	for {
		before := bounds
		bounds, err = q.bounds(ctx)
		whole = len(bounds) == len(q.streamConfigs())
		if err != nil || whole || len(bounds) == 0 || time.Now().After(giveUp) || pause(ctx, othersAgain) != nil {
			return bounds, whole, err
		}
		if !maps.Equal(before, bounds) {
			giveUp = time.Now().Add(patience)
		}
	}
}

// probeRoom has JOBS alone take for a moment what all of them will: a cluster
// hears of what its servers have reserved a while later only. Who is first makes
// JOBS, and all others leave the rest to him: a server whose streams are changed
// by several at once miscounts what it has reserved, and then has room for
// nothing.
func (q *Queue) probeRoom(ctx context.Context, replicas int, bounds map[string]int64, size int64, first bool) error {
	jobs := q.jobsStream()
	jobs.Replicas = replicas
	for _, cfg := range q.streamConfigs() {
		jobs.MaxBytes += bound(cfg.Name, bounds, size)
	}
	if !first {
		return q.makeStream(ctx, jobs)
	}
	jobs.Description = "Airlock: being set up by " + job.NewID().String() // what is the same may be made twice
	err := q.insist(ctx, func(ctx context.Context) error {
		_, err := q.js.CreateStream(ctx, jobs)
		return err
	})
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return errNotFirst
	}
	if err != nil {
		return streamError(jobs, err)
	}
	return nil
}

func bound(stream string, bounds map[string]int64, size int64) int64 {
	return cmp.Or(bounds[stream], share(stream, size))
}

// bounds are those of the streams that are there.
func (q *Queue) bounds(ctx context.Context) (map[string]int64, error) {
	there := map[string]int64{}
	for _, cfg := range q.streamConfigs() {
		err := q.insist(ctx, func(ctx context.Context) error {
			stream, err := q.js.Stream(ctx, cfg.Name)
			if err == nil && stream.CachedInfo().Config.MaxBytes > 0 {
				there[cfg.Name] = stream.CachedInfo().Config.MaxBytes
			}
			return err
		})
		if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			return nil, bindError("stream "+cfg.Name, err)
		}
	}
	return there, nil
}

// setUpWithin creates or updates the streams, those without a bound with their
// share of size.
func (q *Queue) setUpWithin(ctx context.Context, replicas int, bounds map[string]int64, size int64) error {
	for _, cfg := range q.streamConfigs() {
		cfg.Replicas, cfg.MaxBytes = replicas, bound(cfg.Name, bounds, size)
		if err := q.makeStream(ctx, cfg); err != nil {
			return err
		}
	}
	return nil
}

// makeTries bounds the race with another worker that makes the stream with
// another bound just now.
const makeTries = 10

func (q *Queue) makeStream(ctx context.Context, cfg jetstream.StreamConfig) (err error) {
	for range makeTries {
		err = q.insist(ctx, func(ctx context.Context) error {
			_, err := q.js.CreateOrUpdateStream(ctx, cfg)
			return err
		})
		if !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			break
		}
	}
	if err != nil {
		return streamError(cfg, err)
	}
	return nil
}

func streamError(cfg jetstream.StreamConfig, err error) error {
	return fmt.Errorf("set up stream %s with %d replicas and %s: %w", cfg.Name, cfg.Replicas, job.Size(cfg.MaxBytes), err)
}

// noRoom knows the refusals of one server and of a cluster.
func noRoom(err error) bool {
	var api *jetstream.APIError
	if !errors.As(err, &api) {
		return false
	}
	switch api.ErrorCode {
	case codeNoStorage, codeNoMemory:
		return true
	case codeNoPeers:
		return strings.Contains(api.Description, "insufficient storage")
	}
	return false
}

// FullError means that the queue takes no more jobs of anybody. It is
// ErrQueueFull.
type FullError struct {
	// Jobs are waiting and running; MaxJobs is how many may.
	Jobs    int64 `json:"jobs"`
	MaxJobs int64 `json:"max_jobs"`
	// Size is how much of the disk they take; MaxSize how much they may.
	Size    job.Size `json:"size"`
	MaxSize job.Size `json:"max_size"`
	// Detail is the server's word.
	Detail string `json:"-"`
}

// Error implements error.
func (e *FullError) Error() string {
	inMiB := func(s job.Size) float64 { return float64(s) / float64(job.MiB) }
	return fmt.Sprintf("queue full: it holds %d of at most %d jobs, %.1f MiB of at most %.1f on disk (%s): wait until some have ended",
		e.Jobs, e.MaxJobs, inMiB(e.Size), inMiB(e.MaxSize), e.Detail)
}

// Is makes it ErrQueueFull.
func (e *FullError) Is(target error) bool { return target == ErrQueueFull }

// explainFull gives a refusal its numbers, if they can be had soon.
func (q *Queue) explainFull(ctx context.Context, j *job.Job, refusal error) error {
	ctx, cancel := context.WithTimeout(ctx, explainWithin)
	defer cancel()
	s, err := q.Standing(ctx, j)
	if err != nil || s.Full == nil {
		return refusal
	}
	full := *s.Full
	full.Detail = refusal.Error()
	if _, detail, ok := strings.Cut(full.Detail, ErrQueueFull.Error()); ok {
		full.Detail = strings.Trim(detail, " ()")
	}
	return &full
}

// fullness is what a refusal tells of the queue as a whole.
func (q *Queue) fullness(ctx context.Context) (full *FullError, err error) {
	err = q.look(ctx, func(ctx context.Context) error {
		info, err := q.jobs.Info(ctx)
		if err == nil {
			full = &FullError{
				Jobs: int64(info.State.Msgs), MaxJobs: info.Config.MaxMsgs,
				Size: job.Size(info.State.Bytes), MaxSize: job.Size(info.Config.MaxBytes),
			}
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("count jobs: %w", err)
	}
	return full, nil
}
