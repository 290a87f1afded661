package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"

	"airlock/job"
)

const (
	// answersAtOnce bounds how many questions one worker works on; more wait.
	answersAtOnce = 16
	answersQueued = 4096
	answerTimeout = 30 * time.Second
	askTimeout    = 30 * time.Second
)

// envelope is an answer on the wire; exactly one field is set.
type envelope struct {
	Response jsontext.Value `json:"response,omitzero"`
	Error    *RemoteError   `json:"error,omitzero"`
}

// Ask puts a question to the workers, any of which answers, and decodes the
// answer into response. It waits at most half a minute if ctx does not say
// otherwise.
//
// Its error wraps ErrNoWorker when nobody is there, ErrTooLarge for a request
// beyond 512 KiB, and is a *RemoteError when the answer is an error. After any
// other error the request may have taken effect.
func (q *Queue) Ask(ctx context.Context, tenant, verb string, request, response any) error {
	return q.ask(ctx, prefixControl, tenant, verb, request, response)
}

func (q *Queue) ask(ctx context.Context, prefix, tenant, verb string, request, response any) error {
	subject, err := questionSubject(prefix, tenant, verb)
	if err != nil {
		return fmt.Errorf("ask: %w", err)
	}
	body, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("ask %s: encode request: %w", verb, err)
	}
	if len(body) > int(inlineReply) {
		return fmt.Errorf("ask %s: %w: the request is %d bytes", verb, ErrTooLarge, len(body))
	}
	if _, limited := ctx.Deadline(); !limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, askTimeout)
		defer cancel()
	}
	reply, err := q.request(ctx, prefix, subject, body)
	if errors.Is(err, nats.ErrNoResponders) {
		return fmt.Errorf("ask %s: %w", verb, ErrNoWorker)
	}
	if err != nil {
		return fmt.Errorf("ask %s: %w", verb, err)
	}
	return q.readAnswer(ctx, tenant, verb, reply, response)
}

// A question of the fleet is put again after fleetPatience, and then after
// twice as long each time, until the pause is fleetPause.
const (
	fleetPatience = 250 * time.Millisecond
	fleetPause    = 2 * time.Second
)

// noResponders is the status with which the server itself answers a question
// that nobody listens for.
const noResponders = "503"

// request puts a question to one worker.
//
// A worker that is frozen, but whose connection the server still holds, is
// given its share of the questions and answers none. Those of the fleet are
// therefore put again, which does no harm, and the first answer to any of them
// counts. With one of two workers frozen, half a minute has 17 of them.
func (q *Queue) request(ctx context.Context, prefix, subject string, body []byte) (*nats.Msg, error) {
	if prefix != prefixFleet {
		return q.requestParts(ctx, subject, body)
	}
	answers, inbox := make(chan *nats.Msg, 1), q.nc.NewInbox()
	sub, err := q.nc.ChanSubscribe(inbox, answers)
	if err != nil {
		return nil, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	for patience := fleetPatience; ; patience = min(2*patience, fleetPause) {
		if err := q.nc.PublishRequest(subject, inbox, body); err != nil {
			return nil, err
		}
		select {
		case reply := <-answers:
			if len(reply.Data) == 0 && reply.Header.Get("Status") == noResponders {
				return nil, nats.ErrNoResponders
			}
			return reply, nil
		case <-time.After(patience):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (q *Queue) readAnswer(ctx context.Context, tenant, verb string, reply *nats.Msg, response any) error {
	data, err := q.unpack(ctx, outputShelf, tenant, reply.Header, reply.Data, maxReply)
	if err != nil {
		return fmt.Errorf("ask %s: %w", verb, err)
	}
	var e envelope
	if err := json.Unmarshal(data, &e); err != nil {
		return fmt.Errorf("ask %s: decode answer: %w", verb, err)
	}
	if e.Error != nil {
		return e.Error
	}
	if response == nil {
		return nil
	}
	if err := json.Unmarshal(e.Response, response); err != nil {
		return fmt.Errorf("ask %s: decode answer: %w", verb, err)
	}
	return nil
}

// Answer answers one verb. The tenant is a valid name and the one in the
// subject, which the server's permissions protect; the request is foreign
// bytes. The response is anything that encodes to JSON. An error that is a
// *RemoteError is told as it is, a *job.FieldError as bad_request, and any
// other as internal, with its words in the log only.
type Answer func(ctx context.Context, tenant string, request []byte) (response any, err error)

// Answer answers questions, sharing them with the other workers, until ctx has
// ended and every answer that was begun is given. At most 16 are worked on at
// once; each gets half a minute.
func (q *Queue) Answer(ctx context.Context, verbs map[string]Answer) error {
	for verb := range verbs {
		if !verbPattern.MatchString(verb) {
			return fmt.Errorf("answer: verb %q is no valid name", job.Printable(verb, 80))
		}
	}
	answering, err := q.answering(prefixControl, controlGroup, verbs)
	if err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	return answering.run(ctx)
}

// answering subscribes to the questions below prefix. The caller calls run.
func (q *Queue) answering(prefix, group string, verbs map[string]Answer) (*answerer, error) {
	a := &answerer{q: q, verbs: verbs, questions: make(chan *nats.Msg, answersQueued), last: make(chan struct{})}
	sub, err := q.nc.ChanQueueSubscribe(questionFilter(prefix), group, a.questions)
	a.sub = sub
	return a, err
}

// run answers until ctx ends and every answer that was begun is given.
func (a *answerer) run(ctx context.Context) error {
	var working sync.WaitGroup
	for range answersAtOnce {
		working.Go(func() { a.work(context.WithoutCancel(ctx)) })
	}
	<-ctx.Done()
	err := a.q.leaveControl(a.sub)
	close(a.last)
	working.Wait()
	return err
}

// leaveControl returns when no further question can arrive.
func (q *Queue) leaveControl(sub *nats.Subscription) error {
	if err := sub.Unsubscribe(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		return fmt.Errorf("stop answering: %w", err)
	}
	q.flush()
	return nil
}

// answerer answers the questions of one subscription.
type answerer struct {
	q         *Queue
	verbs     map[string]Answer
	questions chan *nats.Msg
	sub       *nats.Subscription
	// last is closed when no further question can arrive.
	last chan struct{}
}

// work answers until no question is left.
func (a *answerer) work(ctx context.Context) {
	for {
		select {
		case msg := <-a.questions:
			a.answer(ctx, msg)
			continue
		default:
		}
		select {
		case msg := <-a.questions:
			a.answer(ctx, msg)
		case <-a.last:
			return
		}
	}
}

// answer always replies, so that nobody waits for nothing; but only to an
// inbox. Who asks chooses the subject of the reply, and could otherwise have a
// worker publish where he himself may not.
func (a *answerer) answer(ctx context.Context, msg *nats.Msg) {
	if msg.Reply == "" {
		return
	}
	if !strings.HasPrefix(msg.Reply, inboxPrefix+".") {
		a.q.cfg.Log.Warn().Str("reply", job.Printable(msg.Reply, 200)).Msg("question without an inbox was ignored")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	tenant, response, err := a.dispatch(ctx, msg)
	if err == nil {
		err = a.reply(ctx, tenant, msg, response)
	}
	if err == nil {
		return
	}
	if err := a.refuse(msg.Reply, a.remote(msg.Subject, err)); err != nil {
		a.q.cfg.Log.Warn().Err(err).Msg("answer could not be sent")
	}
}

func (a *answerer) dispatch(ctx context.Context, msg *nats.Msg) (tenant string, response any, err error) {
	tenant, verb, ok := parseQuestion(msg.Subject)
	if !ok {
		return "", nil, &RemoteError{Code: CodeBadRequest, Message: "the tenant or the verb is no valid name"}
	}
	answer := a.verbs[verb]
	if answer == nil {
		return tenant, nil, &RemoteError{Code: CodeUnknownVerb, Message: "workers do not know " + verb}
	}
	response, err = answer(ctx, tenant, msg.Data)
	return tenant, response, err
}

// reply sends what a verb answered: a document, or a blob in its parts.
func (a *answerer) reply(ctx context.Context, tenant string, to *nats.Msg, response any) error {
	if body, isBlob := response.(blobBody); isBlob {
		return a.q.sendParts(ctx, to.Reply, body)
	}
	value, err := json.Marshal(response)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	// An envelope, put together by hand: to encode it would parse the value.
	body := append(append([]byte(`{"response":`), value...), '}')
	if len(body) > int(maxReply) {
		return &RemoteError{Code: CodeTooLarge, Message: fmt.Sprintf("the answer is %d bytes, the maximum is %s: ask for less", len(body), maxReply)}
	}
	if len(body) > int(inlineReply) && to.Header.Get(headerParts) != "" {
		return a.q.sendParts(ctx, to.Reply, body)
	}
	msg := nats.NewMsg(to.Reply)
	if err := a.q.pack(ctx, outputShelf, tenant, msg, body, inlineReply); err != nil {
		return err
	}
	return a.q.nc.PublishMsg(msg)
}

func (a *answerer) refuse(to string, why *RemoteError) error {
	body, err := json.Marshal(envelope{Error: why})
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	return a.q.nc.Publish(to, body)
}

// remote is what the asker is told of an error.
func (a *answerer) remote(subject string, err error) *RemoteError {
	var known *RemoteError
	var field *job.FieldError
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &field):
		return &RemoteError{Code: CodeBadRequest, Message: field.Error()}
	case errors.Is(err, context.DeadlineExceeded):
		return &RemoteError{Code: CodeTimeout, Message: "the answer took too long"}
	case transient(err):
		return &RemoteError{Code: CodeUnavailable, Message: "the queue does not answer the worker now: ask again in some seconds"}
	}
	a.q.cfg.Log.Error().Err(err).Str("subject", job.Printable(subject, 200)).Msg("question could not be answered")
	return &RemoteError{Code: CodeInternal, Message: "the worker could not answer; its log says why"}
}
