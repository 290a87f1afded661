package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"airlock/job"
)

const (
	// publishPatience is how long a publish is tried again while the server
	// is away. It must stay well below dedupeWindow.
	publishPatience = 30 * time.Second
	// publishTimeout is short, since what was sent into a restart of the
	// server is lost without a word.
	publishTimeout = 2 * time.Second
	publishAgain   = 200 * time.Millisecond
)

// The server's codes that nats.go does not name.
const (
	codeLimitExceeded jetstream.ErrorCode = 10077
	codeIngestBusy    jetstream.ErrorCode = 10167
	// These come when the server, or the account, has no room for any stream.
	codeNoResources jetstream.ErrorCode = 10023
	codeNoStorage   jetstream.ErrorCode = 10047
	codeNoMemory    jetstream.ErrorCode = 10028
	codeNoPeers     jetstream.ErrorCode = 10005
	codeAccountFull jetstream.ErrorCode = 10002
	// codeUnavailable comes of a cluster that has no leader just now, and
	// codeKeyBusy of a key that another is writing.
	codeUnavailable jetstream.ErrorCode = 10008
	codeKeyBusy     jetstream.ErrorCode = 10163
	// codeOverlap refuses a consumer whose subjects another has.
	codeOverlap jetstream.ErrorCode = 10100
	// codeNoCluster refuses replicas.
	codeNoCluster jetstream.ErrorCode = 10074
)

// publish stores msg and waits for the stream's word. It tries again, under
// the same id, while the server is away.
func (q *Queue) publish(ctx context.Context, msg *nats.Msg, id string) error {
	giveUp := time.Now().Add(publishPatience)
	for {
		err := q.publishOnce(ctx, msg, id)
		if err == nil {
			return nil
		}
		if !transient(err) || ctx.Err() != nil || time.Now().After(giveUp) {
			return translate(err)
		}
		if pause(ctx, publishAgain) != nil {
			return translate(err)
		}
	}
}

func (q *Queue) publishOnce(ctx context.Context, msg *nats.Msg, id string) error {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	asked := time.Now()
	_, err := q.js.PublishMsg(ctx, msg, jetstream.WithMsgID(id))
	q.answered(asked, err)
	return err
}

// transient reports whether the same publish may succeed a little later.
func transient(err error) bool {
	for _, kind := range []error{
		nats.ErrTimeout, nats.ErrNoResponders, nats.ErrDisconnected, nats.ErrReconnectBufExceeded,
		nats.ErrConnectionReconnecting, jetstream.ErrNoStreamResponse, context.DeadlineExceeded,
	} {
		if errors.Is(err, kind) {
			return true
		}
	}
	var api *jetstream.APIError
	return errors.As(err, &api) && slices.Contains([]jetstream.ErrorCode{codeIngestBusy, codeUnavailable, codeKeyBusy}, api.ErrorCode)
}

// translate gives the driver's errors our names.
func translate(err error) error {
	var api *jetstream.APIError
	switch {
	case errors.Is(err, nats.ErrMaxPayload), errors.Is(err, jetstream.ErrStreamMessageExceedsMaximum):
		return fmt.Errorf("publish: %w: %w", ErrTooLarge, err)
	case errors.As(err, &api) && api.ErrorCode == codeLimitExceeded && strings.Contains(api.Description, "per subject"):
		// Both limits have one code; only the words differ.
		return fmt.Errorf("publish: %w", ErrOverQuota)
	case errors.As(err, &api) && slices.Contains([]jetstream.ErrorCode{codeLimitExceeded, codeNoResources, codeNoStorage, codeAccountFull}, api.ErrorCode):
		return fmt.Errorf("publish: %w (%s)", ErrQueueFull, api.Description)
	}
	return fmt.Errorf("publish: %w", err)
}

// enqueue publishes one generation of a prepared job, whose encoding is body.
func (q *Queue) enqueue(ctx context.Context, j *job.Job, body []byte, generation int) error {
	p, err := placeOf(j)
	if err != nil {
		return err
	}
	msg := nats.NewMsg(p.subject())
	msg.Header.Set(headerGeneration, strconv.Itoa(generation))
	carryTrace(ctx, msg)
	if err := q.pack(ctx, jobShelf, p.tenant, msg, body, inlineLimit); err != nil {
		return err
	}
	return q.publish(ctx, msg, messageID(j.ID, generation))
}

func encodeJob(j *job.Job) ([]byte, error) {
	body, err := j.Encode()
	if err != nil {
		return nil, fmt.Errorf("encode job: %w", err)
	}
	if len(body) > int(job.MaxSpec) {
		return nil, fmt.Errorf("%w: the job is %d bytes, the maximum is %s", ErrTooLarge, len(body), job.MaxSpec)
	}
	return body, nil
}

// Republish puts a job into its lane again, as another generation: the queue
// remembers the earlier one and would drop it. Calling it twice with the same
// generation within two minutes is one publish.
func (q *Queue) Republish(ctx context.Context, r job.Republish) error {
	if r.Generation < 1 {
		return fmt.Errorf("republish %s: generation %d is below 1", r.Job.ID, r.Generation)
	}
	if err := q.registerLane(ctx, r.Job.Requires); err != nil {
		return err
	}
	body, err := encodeJob(r.Job)
	if err == nil {
		err = q.enqueue(ctx, r.Job, body, r.Generation)
	}
	if err != nil {
		return fmt.Errorf("republish %s: %w", r.Job.ID, err)
	}
	q.cfg.Log.Info().Stringer("job", r.Job.ID).Int("generation", r.Generation).Str("reason", r.Reason).Msg("job published again")
	return nil
}
