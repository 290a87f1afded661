package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"airlock/job"
)

// Stock counts what the queue holds, waiting and running together, by lane.
func (q *Queue) Stock(ctx context.Context) (map[string]int, error) {
	stored, err := q.stored(ctx)
	if err != nil {
		return nil, err
	}
	lanes := map[string]int{}
	for p, count := range stored {
		lanes[p.lane] += count
	}
	return lanes, nil
}

// Served reports whether a live worker can run the jobs of a lane. It says so
// too of a lane whose requirement is not known here.
func (q *Queue) Served(lane string) bool {
	r, known := q.lanes.lookup(laneKey(lane))
	return !known || q.known(func(w Presence) bool {
		return slices.ContainsFunc(w.Offers, func(o job.Offer) bool { return r.Unmet(o) == "" })
	})
}

// stall is a consumer that gives out nothing, although its jobs are there. The
// same twice is one that is stuck.
type stall struct {
	stream, consumer string
	delivered        uint64
}

// Mend deletes consumers that are stuck, for workers to make them anew, and
// returns their names. A consumer is stuck that has nothing to give, and
// nothing given that is not acknowledged, while there are jobs of its subject:
// it believes to be ahead of the stream, as after a power cut that cost the
// stream its end, or a change of what it filters. It must be found so by two
// calls in a row. One goroutine at a time may call it.
func (q *Queue) Mend(ctx context.Context) (recreated []string, err error) {
	stored, err := q.stored(ctx)
	if err != nil {
		return nil, fmt.Errorf("mend: %w", err)
	}
	now := map[stall]bool{}
	look := func(info *jetstream.ConsumerInfo, there int) {
		if there > 0 && info.NumPending == 0 && info.NumAckPending == 0 {
			now[stall{info.Stream, info.Name, info.Delivered.Consumer}] = true
		}
	}
	err = eachConsumer(ctx, q.jobs, func(info *jetstream.ConsumerInfo) {
		if p, ok := storedPlace(info.Config.FilterSubject); ok {
			look(info, stored[p])
		}
	})
	if err != nil {
		return nil, fmt.Errorf("mend: %w", err)
	}
	if err := q.lookAtRecorder(ctx, look); err != nil {
		return nil, fmt.Errorf("mend: %w", err)
	}
	for s := range now {
		if !q.stalled[s] {
			continue
		}
		err := q.once(ctx, func(ctx context.Context) error { return q.js.DeleteConsumer(ctx, s.stream, s.consumer) })
		if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
			return recreated, fmt.Errorf("mend: delete consumer %s of %s: %w", s.consumer, s.stream, err)
		}
		delete(now, s)
		q.cfg.Log.Warn().Str("stream", s.stream).Str("consumer", s.consumer).Msg("consumer was stuck and is made anew")
		recreated = append(recreated, s.consumer)
	}
	q.stalled = now
	return recreated, nil
}

// lookAtRecorder is Mend's look at the one consumer of QUEUED.
func (q *Queue) lookAtRecorder(ctx context.Context, look func(*jetstream.ConsumerInfo, int)) error {
	var there int
	err := q.look(ctx, func(ctx context.Context) error {
		info, err := q.queued.Info(ctx)
		if err == nil {
			there = int(info.State.Msgs)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("count queued: %w", err)
	}
	return eachConsumer(ctx, q.queued, func(info *jetstream.ConsumerInfo) { look(info, there) })
}

func eachConsumer(ctx context.Context, stream jetstream.Stream, do func(*jetstream.ConsumerInfo)) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	list := stream.ListConsumers(ctx)
	for info := range list.Info() {
		do(info)
	}
	if err := list.Err(); err != nil && !errors.Is(err, jetstream.ErrEndOfData) {
		return fmt.Errorf("list consumers: %w", err)
	}
	return nil
}
