package queue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"airlock/job"
)

// What a submitter needs of what tenants wrote it asks the workers for, since
// the server lets it read none of that. Whoever may make the server send him a
// stored message also chooses the subject where it arrives, and it arrives
// there with the server's own rights: with content of his own, that would be a
// job for another tenant.
const (
	fleetLane  = "lane"
	fleetLanes = "lanes"
	fleetKey   = "key"
	fleetBlob  = "blob"
	// fleetStanding asks how many jobs are before the tenant's next one.
	fleetStanding = "standing"

	// partWait is how long the next part of a blob may take.
	partWait  = 5 * time.Second
	blobTries = 3
	blobAgain = 100 * time.Millisecond
)

const codeNotFound = "not_found"

type (
	keyQuestion struct {
		Key string `json:"key"`
	}
	keyAnswer struct {
		Value []byte `json:"value"`
	}
	blobQuestion struct {
		Digest string `json:"digest"`
	}
	// blobBody is an answer that is sent in parts.
	blobBody []byte
)

// serveFleet answers the questions of attached queues until Close.
func (q *Queue) serveFleet() error {
	answering, err := q.answering(prefixFleet, fleetGroup, map[string]Answer{
		fleetLane:     q.answerLane,
		fleetLanes:    func(ctx context.Context, _ string, _ []byte) (any, error) { return q.Lanes(ctx) },
		fleetKey:      q.answerKey,
		fleetBlob:     q.answerBlob,
		fleetStanding: q.answerStanding,
	})
	if err != nil {
		return fmt.Errorf("serve the fleet: %w", err)
	}
	// The server has heard of the subscription before Open returns.
	q.flush()
	q.running.Go(func() {
		if err := answering.run(q.background); err != nil {
			q.cfg.Log.Debug().Err(err).Msg("serving the fleet ended with an error")
		}
	})
	return nil
}

// probeRights finds out whether the user may ask for the tenant at all: what is
// refused brings no answer, so that everything else would wait for one. The
// refusal comes before the answer to the flush; a question without a reply
// subject is answered by nobody.
func (q *Queue) probeRights(ctx context.Context) error {
	subject, err := questionSubject(prefixFleet, q.cfg.Tenant, fleetLanes)
	if err != nil {
		return fmt.Errorf("attach: %w", err)
	}
	allowed, err := q.mayAsk(ctx, subject)
	if err != nil {
		return fmt.Errorf("attach: %w", err)
	}
	if !allowed {
		return fmt.Errorf("attach as tenant %s: %w", q.cfg.Tenant, ErrRefused)
	}
	return nil
}

// mayAsk finds out whether the server lets the user publish at a subject.
func (q *Queue) mayAsk(ctx context.Context, subject string) (bool, error) {
	if err := q.nc.Publish(subject, nil); err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if err := q.nc.FlushWithContext(ctx); err != nil {
		return false, err
	}
	err := q.nc.LastError()
	return !errors.Is(err, nats.ErrPermissionViolation) || !strings.Contains(err.Error(), `"`+subject+`"`), nil
}

func decodeQuestion(request []byte, into any) error {
	if err := job.CheckJSON(request); err != nil {
		return err
	}
	return job.DecodeStrict(request, into)
}

func (q *Queue) answerLane(ctx context.Context, _ string, request []byte) (any, error) {
	var r job.Requirement
	if err := decodeQuestion(request, &r); err != nil {
		return nil, err
	}
	err := q.registerLane(ctx, r)
	if errors.Is(err, ErrTooManyLanes) {
		return nil, &RemoteError{Code: CodeTooLarge, Message: err.Error()}
	}
	return true, err
}

func (q *Queue) askLane(ctx context.Context, tenant string, r job.Requirement) error {
	err := q.ask(ctx, prefixFleet, tenant, fleetLane, r, nil)
	var remote *RemoteError
	if errors.As(err, &remote) && remote.Code == CodeTooLarge {
		return fmt.Errorf("%w (%d)", ErrTooManyLanes, MaxLanes)
	}
	return err
}

// askLanes asks as nobody in particular: lanes are everybody's.
func (q *Queue) askLanes(ctx context.Context) (lanes []Lane, err error) {
	return lanes, q.ask(ctx, prefixFleet, q.cfg.Tenant, fleetLanes, struct{}{}, &lanes)
}

// answerKey tells a tenant what stands under one of its keys.
func (q *Queue) answerKey(ctx context.Context, tenant string, request []byte) (any, error) {
	var asked keyQuestion
	if err := decodeQuestion(request, &asked); err != nil {
		return nil, err
	}
	digest, own := strings.CutPrefix(asked.Key, tenant+".")
	if !own || !digestPattern.MatchString(digest) {
		return nil, &RemoteError{Code: CodeBadRequest, Message: "that is no key of this tenant"}
	}
	value, err := q.readKey(ctx, asked.Key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, &RemoteError{Code: codeNotFound, Message: "there is no such key"}
	}
	return keyAnswer{value}, err
}

func (q *Queue) askKey(ctx context.Context, tenant, key string) ([]byte, error) {
	var answer keyAnswer
	err := q.ask(ctx, prefixFleet, tenant, fleetKey, keyQuestion{key}, &answer)
	var remote *RemoteError
	if errors.As(err, &remote) && remote.Code == codeNotFound {
		return nil, jetstream.ErrKeyNotFound
	}
	return answer.Value, err
}

// answerBlob reads only among the tenant's own.
func (q *Queue) answerBlob(ctx context.Context, tenant string, request []byte) (any, error) {
	var asked blobQuestion
	if err := decodeQuestion(request, &asked); err != nil {
		return nil, err
	}
	data, err := q.loadBlob(ctx, outputShelf, tenant, asked.Digest, maxReply)
	if errors.Is(err, errBadBlob) {
		return nil, &RemoteError{Code: codeNotFound, Message: "the blob is missing or damaged"}
	}
	return blobBody(data), err
}

// sendParts sends a blob, each part with the number of all.
func (q *Queue) sendParts(ctx context.Context, to string, body blobBody) error {
	for _, part := range parts(body) {
		if err := ctx.Err(); err != nil {
			return err
		}
		msg := nats.NewMsg(to)
		msg.Data = part
		msg.Header.Set(headerParts, strconv.Itoa(partsOf(len(body))))
		if err := q.nc.PublishMsg(msg); err != nil {
			return err
		}
	}
	return nil
}

// askBlob has a worker send a blob. What a lost connection swallowed of it is
// asked for again.
func (q *Queue) askBlob(ctx context.Context, tenant, digest string, limit job.Size) (data []byte, err error) {
	for range blobTries {
		if data, err = q.askBlobOnce(ctx, tenant, digest, limit); err == nil || errors.Is(err, errBadBlob) {
			break
		}
		if pause(ctx, blobAgain) != nil {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("load blob %s: %w", digest, err)
	}
	return data, nil
}

func (q *Queue) askBlobOnce(ctx context.Context, tenant, digest string, limit job.Size) ([]byte, error) {
	subject, err := questionSubject(prefixFleet, tenant, fleetBlob)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(blobQuestion{digest})
	if err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	inbox := q.nc.NewInbox()
	sub, err := q.nc.SubscribeSync(inbox)
	if err != nil {
		return nil, err
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only when the connection is gone
	// What arrives is bounded by limit.
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		return nil, err
	}
	if err := q.nc.PublishRequest(subject, inbox, body); err != nil {
		return nil, err
	}
	return gatherParts(ctx, sub, limit)
}

func gatherParts(ctx context.Context, sub *nats.Subscription, limit job.Size) (data []byte, err error) {
	for part, count := 0, 1; part < count; part++ {
		msg, err := nextPart(ctx, sub)
		if err != nil {
			return nil, err
		}
		if count, err = strconv.Atoi(msg.Header.Get(headerParts)); err != nil || count < 1 || count > maxParts {
			return nil, refusedBlob(msg)
		}
		if data = append(data, msg.Data...); len(data) > int(limit) {
			return nil, fmt.Errorf("%w: it exceeds %s", errBadBlob, limit)
		}
	}
	return data, nil
}

func nextPart(ctx context.Context, sub *nats.Subscription) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, partWait)
	defer cancel()
	msg, err := sub.NextMsgWithContext(ctx)
	if errors.Is(err, nats.ErrNoResponders) {
		return nil, ErrNoWorker
	}
	return msg, err
}

// refusedBlob is what an answer that is no blob says.
func refusedBlob(msg *nats.Msg) error {
	var e envelope
	if err := json.Unmarshal(msg.Data, &e); err != nil || e.Error == nil {
		return errors.New("the answer is no blob")
	}
	if e.Error.Code == codeNotFound {
		return fmt.Errorf("%w: %w", errBadBlob, e.Error)
	}
	return e.Error
}
