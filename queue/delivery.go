package queue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"airlock/job"
)

const (
	ackTimeout = 2 * time.Second
	// ackPatience outlasts an election. What is not acknowledged waits out
	// AckWait, and all that time the queue is not empty.
	ackPatience = 15 * time.Second
	// ackAgain is the pause before another try: a server that restarts
	// answers at once that nobody responds.
	ackAgain = 250 * time.Millisecond
	// maxLater bounds how long a delivery is put off: until then it counts
	// against the consumer's deliveries in flight.
	maxLater = time.Minute
)

// errMalformed marks a message that no retry makes readable.
var errMalformed = errors.New("message is malformed")

// arrival is a readable message of JOBS or QUEUED.
type arrival struct {
	job        *job.Job
	generation int
	at         time.Time
	// key is recentKey's of a message of JOBS.
	key string
	// trace is the submitter's span, "" for none.
	trace string
	// behind is whether others waited behind it.
	behind bool
}

// readArrival decodes a message and checks body and subject against each
// other. The error wraps errMalformed when trying again is no use; raw is the
// body as far as it could be had.
func (q *Queue) readArrival(ctx context.Context, msg *message, prefix string) (a arrival, raw []byte, err error) {
	p, err := parsePlace(msg.Subject(), prefix)
	if err != nil {
		return a, msg.Data(), fmt.Errorf("%w: %w", errMalformed, err)
	}
	raw, err = q.unpack(ctx, jobShelf, p.tenant, msg.Headers(), msg.Data(), job.MaxSpec)
	if errors.Is(err, errBadBlob) {
		return a, nil, fmt.Errorf("%w: %w", errMalformed, err)
	}
	if err != nil {
		return a, nil, err
	}
	meta, err := msg.Metadata()
	if err != nil {
		return a, raw, fmt.Errorf("%w: %w", errMalformed, err)
	}
	a.at, a.trace, a.behind = meta.Timestamp.UTC(), traceOf(msg.Headers()), meta.NumPending > 0
	a.key = recentKey(strconv.FormatUint(meta.Sequence.Stream, 10), msg.Headers().Get(jetstream.MsgIDHeader))
	if a.job, err = decodeJob(raw, a.at, p); err == nil {
		a.generation, err = parseGeneration(msg.Headers().Get(headerGeneration))
	}
	if err != nil {
		return a, raw, fmt.Errorf("%w: %w", errMalformed, err)
	}
	return a, raw, nil
}

// decodeJob reads a job that a submitter prepared, or should have. It is judged
// by the time it entered the queue, not by how long it waited.
func decodeJob(body []byte, entered time.Time, p place) (*job.Job, error) {
	j, err := job.Decode(body)
	if err != nil {
		return nil, err
	}
	if j.ID.IsZero() {
		return nil, &job.FieldError{Field: "id", Reason: "required"}
	}
	if err := j.Prepare(entered); err != nil {
		return nil, err
	}
	real, err := placeOf(j)
	if err != nil {
		return nil, err
	}
	if real != p {
		return nil, fmt.Errorf("a job for %s lies under %s", real.subject(), p.subject())
	}
	return j, nil
}

// parseGeneration reads the header; a submitter that sets none means the first.
func parseGeneration(header string) (int, error) {
	if header == "" {
		return 1, nil
	}
	generation, err := strconv.Atoi(header)
	if err != nil || generation < 1 {
		return 0, fmt.Errorf("generation %q is no number from 1", job.Printable(header, 40))
	}
	return generation, nil
}

// delivery is what a handler gets. acknowledging is called when it begins to
// acknowledge.
func (q *Queue) delivery(a arrival, msg *message, acknowledging func()) job.Delivery {
	d := job.Delivery{
		Job: a.job, Generation: a.generation, Queued: a.at, TraceParent: a.trace, Behind: a.behind,
		Ack: func(ctx context.Context) error {
			acknowledging()
			err := ackDelivery(ctx, msg)
			if err == nil {
				q.ended.note(a.key)
			}
			return err
		},
		KeepAlive: func() error { return wrapAck("keep delivery alive", msg.InProgress()) },
		Later: func(delay time.Duration) error {
			return wrapAck("give delivery back", msg.NakWithDelay(min(max(delay, 0), maxLater)))
		},
	}
	if digest := msg.Headers().Get(headerBlob); digest != "" {
		d.Forget = func(ctx context.Context) error { return q.dropBlob(ctx, a.job.Tenant, digest) }
	}
	return d
}

// ackDelivery acknowledges and waits for the queue's word. A second call finds
// the message acknowledged, which is what it wants.
func ackDelivery(ctx context.Context, msg *message) (err error) {
	for giveUp := time.Now().Add(ackPatience); ; {
		once, cancel := context.WithTimeout(ctx, ackTimeout)
		err = msg.DoubleAck(once)
		cancel()
		if err == nil || errors.Is(err, jetstream.ErrMsgAlreadyAckd) {
			return nil
		}
		if time.Now().After(giveUp) || pause(ctx, ackAgain) != nil {
			break
		}
	}
	return fmt.Errorf("acknowledge delivery: %w", err)
}

func wrapAck(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// flush waits until the server has what was sent without waiting for a word,
// such as deliveries given back: lost, they would wait out AckWait.
func (q *Queue) flush() {
	if !q.nc.IsConnected() {
		return
	}
	if err := q.nc.FlushTimeout(ackTimeout); err != nil {
		q.cfg.Log.Debug().Err(err).Msg("flush brought an error")
	}
}
