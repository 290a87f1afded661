package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
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
	r := &recorder{q: q, sink: sink}
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
	q    *Queue
	sink func(ctx context.Context, batch []job.Queued) error
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
		msgs, err := collect(ctx, consumer)
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
func collect(ctx context.Context, consumer jetstream.Consumer) ([]jetstream.Msg, error) {
	wait, cancel := context.WithTimeout(ctx, recordWait)
	defer cancel()
	first, err := fetched(consumer.Fetch(1, jetstream.FetchContext(wait)))
	if err != nil || len(first) == 0 {
		return first, err
	}
	_ = pause(ctx, recordLinger)
	rest, err := fetched(consumer.FetchNoWait(recordBatch - 1))
	if len(rest) < recordBatch-1 {
		_ = pause(ctx, recordLinger)
	}
	return append(first, rest...), err
}

// fetched gathers a fetch; that its time ran out is no error.
func fetched(batch jetstream.MessageBatch, err error) ([]jetstream.Msg, error) {
	if err != nil {
		return nil, fmt.Errorf("fetch queued jobs: %w", err)
	}
	var msgs []jetstream.Msg
	for msg := range batch.Messages() {
		msgs = append(msgs, msg)
	}
	err = batch.Error()
	if err == nil || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.Is(err, nats.ErrTimeout) {
		return msgs, nil
	}
	return msgs, fmt.Errorf("fetch queued jobs: %w", err)
}

// record brings one batch to the sink and acknowledges it.
func (r *recorder) record(ctx context.Context, msgs []jetstream.Msg) {
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
			r.each(readable, "give back queued job", jetstream.Msg.Nak)
			return
		}
		again = min(2*again, recordAgainMax)
		r.each(readable, "keep queued job", jetstream.Msg.InProgress)
	}
	r.each(readable, "acknowledge queued job", jetstream.Msg.Ack)
}

// unended returns the messages of jobs that have not ended here, and
// acknowledges the others.
func (r *recorder) unended(msgs []jetstream.Msg) []jetstream.Msg {
	var left []jetstream.Msg
	for _, msg := range msgs {
		if r.q.ended.has(originKey(msg)) {
			r.each([]jetstream.Msg{msg}, "acknowledge ended job", jetstream.Msg.Ack)
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
func (r *recorder) each(msgs []jetstream.Msg, what string, send func(jetstream.Msg) error) {
	for _, msg := range msgs {
		if err := send(msg); err != nil {
			r.q.cfg.Log.Debug().Err(err).Msg(what)
		}
	}
}

// read decodes a batch. What can never be read is dropped here: its arrival in
// JOBS is the worker's to report.
func (r *recorder) read(ctx context.Context, msgs []jetstream.Msg) (readable []jetstream.Msg, batch []job.Queued) {
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
			r.each([]jetstream.Msg{msg}, "drop malformed job", jetstream.Msg.Term)
		default:
			r.q.cfg.Log.Info().Err(err).Msg("queued job could not be read just now")
			r.each([]jetstream.Msg{msg}, "put off queued job", func(m jetstream.Msg) error { return m.NakWithDelay(unreadableDelay) })
		}
	}
	return readable, batch
}
