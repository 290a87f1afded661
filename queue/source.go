package queue

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// maxInFlight bounds what one place may have delivered and not
	// acknowledged, over the whole fleet. A wall there looks like a stalled
	// queue.
	maxInFlight = 50_000
	// forgetConsumer is when the server drops a consumer that no worker asked
	// for a job: its tenant has none, or no worker serves the lane. What it
	// had delivered is delivered again by the next.
	forgetConsumer = 5 * time.Minute
	// maxConsumers bounds how many places may have jobs at once.
	maxConsumers = 10_000
)

// source is one place that a worker pulls from: a tenant's jobs of one lane
// and priority. Each tenant has its own, since a consumer gives out jobs in
// the order they came: behind one tenant's fifty thousand, another's one would
// wait for all of them.
type source struct {
	place    place
	consumer jetstream.Consumer
	// ready is set when there may be a message: at first, when the bell
	// rings, and now and then.
	ready atomic.Bool
	// rings counts the bells that no job was found for yet; none when the place
	// was found empty.
	rings atomic.Int64

	// The rest belongs to the goroutine of Consume. broken is set when the
	// consumer turned out to be gone; asked is what it has not answered; echoes is
	// how often an empty place is looked at once more, and echo that it will be;
	// served is the turn in which it last gave a job, and found when.
	broken bool
	asked  question
	echoes int
	echo   bool
	served uint64
	found  time.Time
}

// maxEchoes and echoAfter: the server rings the bell before the consumer has
// heard of the message, so that a quick fetch may find nothing.
const (
	maxEchoes = 3
	echoAfter = time.Millisecond
)

// empty notes that a fetch found nothing and reports whether to look again
// after echoAfter.
func (s *source) empty() bool {
	if s.rings.Swap(0) > 0 {
		s.echoes = maxEchoes
	}
	s.echo = s.echoes > 0
	s.echoes = max(0, s.echoes-1)
	return s.echo
}

// openSource creates the place's consumer, or binds to it, and reads back
// whether it is the one that was asked for: a server that ignored the filter
// would hand out other tenants' jobs. Each worker creates it with the same
// settings, so that it does not matter who is first. There is no BackOff,
// which distorts delays, and no MaxDeliver, which strands messages.
func (q *Queue) openSource(ctx context.Context, p place) (*source, error) {
	s := &source{place: p, found: time.Now()}
	s.ready.Store(true)
	create := func(ctx context.Context) (err error) {
		s.consumer, err = q.js.CreateOrUpdateConsumer(ctx, streamJobs, jetstream.ConsumerConfig{
			Durable: p.consumer(), FilterSubject: p.subject(), InactiveThreshold: forgetConsumer,
			AckPolicy: jetstream.AckExplicitPolicy, AckWait: q.cfg.AckWait, MaxDeliver: -1, MaxAckPending: maxInFlight,
			Description: "Airlock: workers that satisfy lane " + p.lane,
		})
		return err
	}
	err := q.once(ctx, create)
	var api *jetstream.APIError
	if errors.As(err, &api) && api.ErrorCode == codeOverlap {
		// A worker of an earlier version made one for all tenants.
		if err = q.once(ctx, func(ctx context.Context) error { return q.dropShared(ctx, p) }); err == nil {
			err = q.once(ctx, create)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("create consumer: %w", err)
	}
	if got := s.consumer.CachedInfo().Config.FilterSubject; got != p.subject() {
		return nil, fmt.Errorf("create consumer: the server filters by %q, want %q", got, p.subject())
	}
	return s, nil
}

// dropShared deletes the consumer that took all tenants' jobs of a lane.
func (q *Queue) dropShared(ctx context.Context, p place) error {
	err := q.js.DeleteConsumer(ctx, streamJobs, p.lane+"-"+string(p.priority))
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return nil
	}
	return err
}

// answered takes the bell of a job that was found off the count, and reports
// whether there are others.
func (s *source) answered() bool {
	for {
		rings := s.rings.Load()
		if rings == 0 || s.rings.CompareAndSwap(rings, rings-1) {
			return rings > 1
		}
	}
}

// more reports whether there may be another message behind this one: the server
// says how many have yet to be delivered first, but not how many again.
func more(msg *message) bool {
	meta, err := msg.Metadata()
	return err != nil || meta.NumPending > 0 || meta.NumDelivered > 1
}

func gone(err error) bool {
	for _, kind := range []error{
		nats.ErrNoResponders, jetstream.ErrConsumerDeleted, jetstream.ErrConsumerNotFound,
		jetstream.ErrConsumerDoesNotExist, jetstream.ErrStreamNotFound,
	} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}
