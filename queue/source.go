package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"airlock/job"
)

// maxInFlight bounds what one lane and priority may have delivered and not
// acknowledged, over the whole fleet. A wall there looks like a stalled queue.
const maxInFlight = 50_000

// source is one lane and priority that a worker pulls from.
type source struct {
	consumer jetstream.Consumer
	// ready is set when there may be a message: after joining, when the bell
	// rings, and now and then.
	ready atomic.Bool
	// rung is set by the bell and cleared when the lane was found empty.
	rung atomic.Bool
	// broken is set when the consumer turned out to be gone.
	broken atomic.Bool

	// echoes is how often an empty lane is looked at once more, and echo that
	// it will be. Both belong to the goroutine of Consume.
	echoes int
	echo   bool
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
	if s.rung.Swap(false) {
		s.echoes = maxEchoes
	}
	s.echo = s.echoes > 0
	s.echoes = max(0, s.echoes-1)
	return s.echo
}

// membership is a lane that a worker has joined.
type membership struct {
	bell    *nats.Subscription
	sources [len(weights)]*source
}

// join binds to the lane's consumers, creating those that are not there, and
// listens for its bell. Each worker creates them with the same settings, so
// that it does not matter who is first. The bell comes first: a job that
// arrives in between then rings it.
func (q *Queue) join(ctx context.Context, lane string, wake chan<- struct{}) (*membership, error) {
	m := &membership{}
	for p := range m.sources {
		m.sources[p] = &source{}
		m.sources[p].ready.Store(true)
	}
	bell, err := q.nc.Subscribe(strings.Join([]string{prefixBell, lane, "*", "*"}, "."), func(msg *nats.Msg) { m.ring(msg.Subject, wake) })
	if err != nil {
		return nil, fmt.Errorf("join lane %s: %w", lane, err)
	}
	m.bell = bell
	for p, priority := range job.Priorities() {
		if m.sources[p].consumer, err = q.laneConsumer(ctx, lane, priority); err != nil {
			return nil, errors.Join(fmt.Errorf("join lane %s: %w", lane, err), m.leave())
		}
	}
	return m, nil
}

func (m *membership) leave() error {
	if err := m.bell.Unsubscribe(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		return fmt.Errorf("leave lane: %w", err)
	}
	return nil
}

func (m *membership) ring(subject string, wake chan<- struct{}) {
	place, err := parsePlace(subject, prefixBell)
	if err != nil {
		return
	}
	s := m.sources[priorityIndex(place.priority)]
	s.rung.Store(true)
	s.ready.Store(true)
	select {
	case wake <- struct{}{}:
	default:
	}
}

func (m *membership) broken() bool {
	for _, s := range m.sources {
		if s.broken.Load() {
			return true
		}
	}
	return false
}

// laneConsumer creates or updates one consumer and reads back whether it is
// the one that was asked for: a server that ignored the filter would hand out
// other lanes' jobs. There is no BackOff, which distorts delays, and no
// MaxDeliver, which strands messages.
func (q *Queue) laneConsumer(ctx context.Context, lane string, priority job.Priority) (jetstream.Consumer, error) {
	filter := laneFilter(prefixJobs, lane, priority)
	var consumer jetstream.Consumer
	err := q.once(ctx, func(ctx context.Context) (err error) {
		consumer, err = q.js.CreateOrUpdateConsumer(ctx, streamJobs, jetstream.ConsumerConfig{
			Durable: consumerName(lane, priority), FilterSubject: filter,
			AckPolicy: jetstream.AckExplicitPolicy, AckWait: q.cfg.AckWait, MaxDeliver: -1, MaxAckPending: maxInFlight,
			Description: "Airlock: workers that satisfy lane " + lane,
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("create consumer: %w", err)
	}
	if got := consumer.CachedInfo().Config.FilterSubject; got != filter {
		return nil, fmt.Errorf("create consumer: the server filters by %q, want %q", got, filter)
	}
	return consumer, nil
}

// fetch takes one message if there is one. It is quick when there is none: the
// server answers at once.
func (s *source) fetch() (jetstream.Msg, error) {
	s.ready.Store(false) // before the fetch, so that a bell during it is heard
	batch, err := s.consumer.FetchNoWait(1)
	if err != nil {
		return nil, err
	}
	msg, ok := <-batch.Messages()
	if ok {
		s.ready.Store(true)
		return msg, nil
	}
	if err := batch.Error(); err != nil {
		s.broken.Store(gone(err))
		return nil, err
	}
	return nil, nil
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
