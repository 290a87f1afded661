package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"airlock/job"
)

const (
	recordBatch = 1024
	// recordLinger is how long what entered the queue waits for company, and
	// then once more for its own end: a job that has ended here needs no
	// record, and the row that its claim made is one version less.
	recordLinger = 100 * time.Millisecond
	recordWait   = 5 * time.Second
	// recordAckWait is how long another recorder leaves our batch alone;
	// it is extended while the sink fails.
	recordAckWait  = time.Minute
	recordInFlight = 16 * recordBatch
	// recordPause is between two tries to find the consumer, which an election
	// takes away for seconds.
	recordPause    = time.Second
	recordAgainMin = 100 * time.Millisecond
	recordAgainMax = 10 * time.Second
)

// Record hands what entered the queue to sink, in batches of at most 1024, until
// ctx ends. A batch whose sink failed is tried again, for ever; what was not
// recorded when ctx ends comes again, here or elsewhere. Sink must therefore
// take the same job twice, and returns only after it has committed. Several
// workers may record at once. Sink gets a context that ends with ctx.
func (q *Queue) Record(ctx context.Context, sink func(ctx context.Context, batch []job.Queued) error) error {
	defer q.flush()
	pulls, err := q.newPuller(4 * recordBatch)
	if err != nil {
		return fmt.Errorf("record: %w", err)
	}
	defer pulls.close()
	r := &recorder{q: q, sink: sink, pulls: pulls}
	for ctx.Err() == nil {
		consumer, err := q.recorderConsumer(ctx)
		if err == nil {
			err = r.drain(ctx, consumer)
		}
		if ctx.Err() == nil {
			q.cfg.Log.Warn().Err(err).Msg("recording was interrupted, trying again")
		}
		_ = pause(ctx, recordPause)
	}
	return nil
}

// recorder is one run of Record.
type recorder struct {
	q     *Queue
	sink  func(ctx context.Context, batch []job.Queued) error
	pulls *puller
}

func (q *Queue) recorderConsumer(ctx context.Context) (jetstream.Consumer, error) {
	var consumer jetstream.Consumer
	err := q.once(ctx, func(ctx context.Context) (err error) {
		consumer, err = q.js.CreateOrUpdateConsumer(ctx, streamQueued, jetstream.ConsumerConfig{
			Durable: recorderName, AckPolicy: jetstream.AckExplicitPolicy, AckWait: recordAckWait,
			MaxDeliver: -1, MaxAckPending: recordInFlight,
			Description: "Airlock: whoever writes queued jobs to the database",
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("create recorder: %w", err)
	}
	return consumer, nil
}

// drain records batch after batch until ctx ends or the consumer breaks.
func (r *recorder) drain(ctx context.Context, consumer jetstream.Consumer) error {
	for {
		msgs, err := r.collect(ctx, consumer)
		if len(msgs) > 0 {
			r.record(ctx, msgs)
		}
		if err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// collect waits for a first message, lingers, and takes what has come by then.
// It lingers again unless there was more than one batch holds.
func (r *recorder) collect(ctx context.Context, consumer jetstream.Consumer) ([]*message, error) {
	first, err := r.pull(ctx, consumer, 1, recordWait)
	if err != nil || len(first) == 0 {
		return first, err
	}
	_ = pause(ctx, recordLinger)
	rest, err := r.pull(ctx, consumer, recordBatch-1, 0)
	if len(rest) < recordBatch-1 {
		_ = pause(ctx, recordLinger)
	}
	return append(first, rest...), err
}

// pull takes up to batch messages that are there, or come within wait. What
// comes later is the next call's.
func (r *recorder) pull(ctx context.Context, consumer jetstream.Consumer, batch int, wait time.Duration) ([]*message, error) {
	question, err := r.pulls.ask(consumer, batch, wait)
	if err != nil {
		return nil, fmt.Errorf("fetch queued jobs: %w", err)
	}
	msgs, err := r.pulls.gather(ctx, question, batch, wait+answerPatience)
	if err != nil {
		return msgs, fmt.Errorf("fetch queued jobs: %w", err)
	}
	return msgs, nil
}

// record brings one batch to the sink and acknowledges it.
func (r *recorder) record(ctx context.Context, msgs []*message) {
	readable, batch := r.read(ctx, r.unended(msgs))
	if len(batch) == 0 {
		return
	}
	r.registerLanes(ctx, batch)
	again := recordAgainMin
	for {
		err := r.sink(ctx, batch)
		if err == nil {
			break
		}
		r.q.cfg.Log.Warn().Err(err).Int("jobs", len(batch)).Msg("queued jobs could not be recorded, trying again")
		if pause(ctx, again) != nil {
			r.each(readable, "give back queued job", (*message).Nak)
			return
		}
		again = min(2*again, recordAgainMax)
		r.each(readable, "keep queued job", (*message).InProgress)
	}
	r.each(readable, "acknowledge queued job", (*message).Ack)
}

// unended returns the messages of jobs that have not ended here, and
// acknowledges the others.
func (r *recorder) unended(msgs []*message) []*message {
	var left []*message
	for _, msg := range msgs {
		if r.q.ended.has(originKey(msg)) {
			r.each([]*message{msg}, "acknowledge ended job", (*message).Ack)
			continue
		}
		left = append(left, msg)
	}
	return left
}

// registerLanes makes lanes known whose first jobs came when no worker was
// there to be asked.
func (r *recorder) registerLanes(ctx context.Context, batch []job.Queued) {
	for _, queued := range batch {
		if err := r.q.registerLane(ctx, queued.Job.Requires); err != nil {
			r.q.cfg.Log.Warn().Err(err).Stringer("job", queued.Job.ID).Msg("lane of a queued job could not be registered")
		}
	}
}

// each sends one kind of acknowledgement for all messages. One that is lost
// costs a second delivery, which the sink bears.
func (r *recorder) each(msgs []*message, what string, send func(*message) error) {
	for _, msg := range msgs {
		if err := send(msg); err != nil {
			r.q.cfg.Log.Debug().Err(err).Msg(what)
		}
	}
}

// read decodes a batch. What can never be read is dropped here: its arrival in
// JOBS is the worker's to report.
func (r *recorder) read(ctx context.Context, msgs []*message) (readable []*message, batch []job.Queued) {
	for _, msg := range msgs {
		a, _, err := r.q.readArrival(ctx, msg, prefixQueued)
		var spec []byte
		if err == nil {
			if spec, err = a.job.Encode(); err != nil {
				err = fmt.Errorf("%w: %w", errMalformed, err)
			}
		}
		switch {
		case err == nil:
			readable = append(readable, msg)
			batch = append(batch, job.Queued{Job: a.job, Spec: spec, Generation: a.generation, At: a.at})
		case errors.Is(err, errMalformed):
			r.q.cfg.Log.Warn().Err(err).Str("subject", job.Printable(msg.Subject(), 200)).Msg("malformed job is not recorded")
			r.each([]*message{msg}, "drop malformed job", func(m *message) error { return m.TermWithReason("malformed") })
		default:
			r.q.cfg.Log.Info().Err(err).Msg("queued job could not be read just now")
			r.each([]*message{msg}, "put off queued job", func(m *message) error { return m.NakWithDelay(unreadableDelay) })
		}
	}
	return readable, batch
}
