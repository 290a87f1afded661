package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"airlock/job"
)

const (
	resultsAhead     = 64
	resultsExpiry    = 10 * time.Second
	resultsHeartbeat = time.Second
	resultsAgain     = 200 * time.Millisecond
	// resultsInactive is when the server forgets a waiter that died.
	resultsInactive = time.Minute
	// briefOutput is what is kept of each stream of a result too large to be
	// announced whole.
	briefOutput = 64 * job.KiB
)

// Announce tells whoever waits that a job has ended. Announcing the same
// attempt's result again within two minutes is one message; later, waiters may
// see it twice. Of a result beyond 48 MiB the output is cut, and marked so.
func (q *Queue) Announce(ctx context.Context, r *job.Result) error {
	subject, err := resultSubject(r.Tenant, r.Batch, r.Job)
	if err != nil {
		return fmt.Errorf("announce: %w", err)
	}
	body, err := encodeResult(r)
	if err != nil {
		return fmt.Errorf("announce %s: %w", r.Job, err)
	}
	msg := nats.NewMsg(subject)
	if err := q.pack(ctx, outputShelf, r.Tenant, msg, body, inlineLimit); err != nil {
		return fmt.Errorf("announce %s: %w", r.Job, err)
	}
	if err := q.publish(ctx, msg, resultID(r.Job, r.Attempt)); err != nil {
		return fmt.Errorf("announce %s: %w", r.Job, err)
	}
	return nil
}

func encodeResult(r *job.Result) ([]byte, error) {
	body, err := json.Marshal(r, json.Deterministic(true))
	if err == nil && len(body) > int(maxResult) {
		brief := *r
		brief.Stdout, brief.StdoutTruncated = cut(r.Stdout, r.StdoutTruncated)
		brief.Stderr, brief.StderrTruncated = cut(r.Stderr, r.StderrTruncated)
		body, err = json.Marshal(&brief, json.Deterministic(true))
	}
	if err != nil {
		return nil, fmt.Errorf("encode result: %w", err)
	}
	if len(body) > int(maxResult) {
		return nil, fmt.Errorf("%w: the result is %d bytes, the maximum is %s", ErrTooLarge, len(body), maxResult)
	}
	return body, nil
}

func cut(stream job.Bytes, truncated bool) (job.Bytes, bool) {
	if len(stream) <= int(briefOutput) {
		return stream, truncated
	}
	return stream[:briefOutput], true
}

// Results is a stream of results, the earlier ones first.
type Results struct {
	q              *Queue
	tenant, filter string

	// mu guards what follows.
	mu       sync.Mutex
	consumer jetstream.Consumer
	messages jetstream.MessagesContext
	last     uint64
	stopped  bool
}

// Results opens the stream of a tenant's results, of one batch unless batch is
// empty, of one job unless id is zero. Results announced before are replayed
// as far back as ResultsAge; lost connections and restarts of the server are
// survived. The caller calls Stop.
func (q *Queue) Results(ctx context.Context, tenant, batch string, id job.ID) (*Results, error) {
	filter, err := resultFilter(tenant, batch, id)
	if err != nil {
		return nil, fmt.Errorf("open results: %w", err)
	}
	r := &Results{q: q, tenant: tenant, filter: filter}
	if _, err := r.open(ctx); err != nil {
		return nil, fmt.Errorf("open results: %w", err)
	}
	return r, nil
}

// Next returns the next result, waiting for it until ctx ends. A result may
// come twice. It is for one goroutine. After Stop it returns ErrClosed.
func (r *Results) Next(ctx context.Context) (*job.Result, error) {
	for {
		msg, err := r.next(ctx)
		if err != nil {
			return nil, err
		}
		result, err := r.decode(ctx, msg)
		switch {
		case err == nil:
			return result, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		}
		r.q.cfg.Log.Warn().Err(err).Str("subject", job.Printable(msg.Subject(), 200)).Msg("announced result is not readable and was skipped")
	}
}

// Stop ends the stream; a Next that waits returns. It may be called twice.
func (r *Results) Stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
	r.abandon()
}

// next returns the next message, opening the stream anew, behind the last
// message seen, whenever it breaks.
func (r *Results) next(ctx context.Context) (jetstream.Msg, error) {
	for {
		messages, err := r.open(ctx)
		if err == nil {
			var msg jetstream.Msg
			if msg, err = messages.Next(jetstream.NextContext(ctx)); err == nil {
				return msg, r.note(msg)
			}
		}
		switch {
		case errors.Is(err, ErrClosed) || r.isStopped():
			return nil, ErrClosed
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		}
		r.q.cfg.Log.Debug().Err(err).Msg("results stream broke, opening it again")
		r.drop()
		if err := pause(ctx, resultsAgain); err != nil {
			return nil, err
		}
	}
}

func (r *Results) open(ctx context.Context) (jetstream.MessagesContext, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return nil, ErrClosed
	}
	if r.messages != nil {
		return r.messages, nil
	}
	cfg := jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{r.filter}, DeliverPolicy: jetstream.DeliverAllPolicy,
		// Opening anew is ours: the library would go on after ctx ends.
		MaxResetAttempts:  1,
		InactiveThreshold: resultsInactive,
	}
	if r.last > 0 {
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, r.last+1
	}
	err := r.q.once(ctx, func(ctx context.Context) (err error) {
		r.consumer, err = r.q.js.OrderedConsumer(ctx, streamResults, cfg)
		return err
	})
	if err != nil {
		r.consumer = nil
		return nil, err
	}
	r.messages, err = r.consumer.Messages(jetstream.PullMaxMessages(resultsAhead),
		jetstream.PullExpiry(resultsExpiry), jetstream.PullHeartbeat(resultsHeartbeat))
	return r.messages, err
}

func (r *Results) note(msg jetstream.Msg) error {
	meta, err := msg.Metadata()
	if err != nil {
		return fmt.Errorf("read results: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = meta.Sequence.Stream
	return nil
}

func (r *Results) drop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.abandon()
}

// abandon ends the consumer, also at the server, of whose consumers there are
// not so many that each short wait may leave one behind. The caller holds mu.
func (r *Results) abandon() {
	if r.messages != nil {
		r.messages.Stop()
		r.messages = nil
	}
	if r.consumer == nil || r.consumer.CachedInfo() == nil || !r.q.nc.IsConnected() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), ackTimeout)
	defer cancel()
	if err := r.q.js.DeleteConsumer(ctx, streamResults, r.consumer.CachedInfo().Name); err != nil {
		r.q.cfg.Log.Debug().Err(err).Msg("results consumer could not be deleted, the server will")
	}
	r.consumer = nil
}

func (r *Results) isStopped() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stopped
}

// decode reads a result and checks it against its subject, which the server's
// permissions protect. While the server is away it waits for a blob.
func (r *Results) decode(ctx context.Context, msg jetstream.Msg) (*job.Result, error) {
	body, err := r.q.unpack(ctx, outputShelf, r.tenant, msg.Headers(), msg.Data(), maxResult)
	for err != nil && !errors.Is(err, errBadBlob) {
		if pause(ctx, resultsAgain) != nil {
			return nil, err
		}
		body, err = r.q.unpack(ctx, outputShelf, r.tenant, msg.Headers(), msg.Data(), maxResult)
	}
	if err != nil {
		return nil, err
	}
	var result job.Result
	// Not strict: a newer worker may say more than we know.
	if err := json.Unmarshal(body, &result); err != nil {
		return nil, fmt.Errorf("decode result: %w", err)
	}
	subject, err := resultSubject(result.Tenant, result.Batch, result.Job)
	if err != nil || subject != msg.Subject() {
		return nil, fmt.Errorf("result of %s does not belong to its subject", result.Job)
	}
	return &result, nil
}
