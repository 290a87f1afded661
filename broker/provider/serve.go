package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"airlock/job"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

const (
	// pendingCalls and pendingBytes are how much may wait for a free handler
	// before the client drops calls.
	pendingCalls = 4096
	pendingBytes = 64 << 20
	// quiet is how long no call may have arrived before a service that has
	// unsubscribed counts as drained.
	quiet = 50 * time.Millisecond
	// maxHeader bounds the text in an answer's headers.
	maxHeader = 1000
)

// Serve answers the calls of a namespace until ctx ends. It returns when the
// calls that have arrived by then are answered, or after Namespace.Drain. Any
// number of providers may serve the same namespace; each call goes to one.
// The error is not nil when serving could not begin, or when the connection was
// closed for good.
func Serve(ctx context.Context, nc *nats.Conn, n Namespace) error {
	n.Version = cmp.Or(n.Version, "0.0.0")
	n.Parallel = cmp.Or(n.Parallel, 64)
	n.Drain = cmp.Or(n.Drain, 10*time.Second)
	n.ReplyPrefix = cmp.Or(n.ReplyPrefix, nats.InboxPrefix)
	if err := n.check(); err != nil {
		return err
	}
	if size, most := n.metadataSize(), int(nc.MaxPayload())/2; size > most {
		return fmt.Errorf("namespace %q: schemas and descriptions are %d bytes, the maximum is %d: serve it in parts", n.Name, size, most)
	}
	stopped := make(chan struct{})
	service, err := micro.AddService(nc, micro.Config{
		Name: n.Name, Version: n.Version, Description: n.Description,
		DoneHandler: func(micro.Service) { close(stopped) },
	})
	if err != nil {
		return fmt.Errorf("add service: %w", err)
	}
	s := &server{nc: nc, namespace: n, instance: service.Info().ID, slots: make(chan struct{}, n.Parallel)}
	handling, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	for _, tool := range n.Tools {
		if err := s.add(handling, service, tool); err != nil {
			return errors.Join(fmt.Errorf("add tool %s: %w", tool.Name, err), service.Stop())
		}
	}
	select {
	case <-ctx.Done():
	case <-stopped:
		return errors.Join(nats.ErrConnectionClosed, s.drain(cancel))
	}
	if err := service.Stop(); err != nil && !nc.IsClosed() {
		return fmt.Errorf("stop service: %w", err)
	}
	return s.drain(cancel)
}

// server handles the calls of one service.
type server struct {
	nc        *nats.Conn
	namespace Namespace
	instance  string
	slots     chan struct{}
	arrived   atomic.Int64
}

func (s *server) add(ctx context.Context, service micro.Service, t Tool) error {
	return service.AddEndpoint(t.Name, micro.HandlerFunc(func(r micro.Request) { s.take(ctx, t, r) }),
		micro.WithEndpointSubject(Subject(s.namespace.Name, t.Name)),
		micro.WithEndpointMetadata(t.metadata()),
		micro.WithEndpointPendingLimits(pendingCalls, pendingBytes))
}

// take starts a handler for a call. It runs on the subscription's own
// goroutine, so that calls wait their turn in the client, in bounds.
func (s *server) take(ctx context.Context, t Tool, r micro.Request) {
	s.arrived.Add(1)
	if !s.answerable(r.Reply()) {
		return
	}
	select {
	case s.slots <- struct{}{}:
	case <-ctx.Done():
		return
	}
	// micro reads its request again when take has returned, so nothing of it
	// is used by the goroutine.
	call, reply := s.call(t, r), r.Reply()
	go func() {
		defer func() { <-s.slots }()
		s.answer(ctx, t, call, reply)
	}()
}

// answerable reports whether an answer may go to the subject: the caller
// chooses it, but the provider's rights publish there.
func (s *server) answerable(reply string) bool {
	return strings.HasPrefix(reply, s.namespace.ReplyPrefix) && !strings.ContainsAny(reply, "*> \t\r\n")
}

func (s *server) call(t Tool, r micro.Request) Call {
	h := r.Headers()
	deadline, _ := time.Parse(time.RFC3339Nano, h.Get(HeaderDeadline)) // else none
	return Call{
		Namespace: s.namespace.Name, Tool: t.Name,
		Tenant: h.Get(HeaderTenant), Job: h.Get(HeaderJob), ID: h.Get(HeaderCall),
		IdempotencyKey: h.Get(HeaderIdempotencyKey), Deadline: deadline, Arguments: r.Data(),
	}
}

func (s *server) answer(ctx context.Context, t Tool, call Call, reply string) {
	if !call.Deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, call.Deadline)
		defer cancel()
		if ctx.Err() != nil {
			s.fail(reply, fmt.Errorf("waited for a free handler: %w", ctx.Err()))
			return
		}
	}
	body, err := handle(ctx, t, call)
	if err != nil {
		s.fail(reply, err)
		return
	}
	if err := s.publish(reply, body, nil); errors.Is(err, nats.ErrMaxPayload) {
		s.fail(reply, Errorf(CodeTooLarge, "%d bytes", len(body)))
	}
}

// handle runs the handler and encodes what it returns.
func handle(ctx context.Context, t Tool, call Call) (body jsontext.Value, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	value, err := t.Handler(ctx, call)
	if err != nil {
		return nil, err
	}
	if raw, ok := value.(jsontext.Value); ok {
		body = raw
	} else if body, err = json.Marshal(value, json.Deterministic(true)); err != nil {
		return nil, fmt.Errorf("encode answer: %w", err)
	}
	if err := job.CheckJSON(body); err != nil {
		return nil, fmt.Errorf("check answer: %w", err)
	}
	return body, nil
}

func (s *server) fail(reply string, err error) {
	code, public, private := described(err)
	header := nats.Header{
		HeaderErrorCode: {code},
		HeaderError:     {job.Printable(private, maxHeader)},
	}
	if public != "" {
		header.Set(HeaderMessage, job.Printable(public, maxHeader))
	}
	// It fails only when the connection does, and then nobody can be told.
	_ = s.publish(reply, nil, header)
}

func (s *server) publish(reply string, body []byte, header nats.Header) error {
	msg := &nats.Msg{Subject: reply, Data: body, Header: header}
	if msg.Header == nil {
		msg.Header = nats.Header{}
	}
	msg.Header.Set(HeaderProvider, s.instance)
	return s.nc.PublishMsg(msg)
}

// drain waits for the calls that had arrived. The service has unsubscribed,
// but the client may still be handing over what it holds, which it gives no
// sign of: so the end is when nothing has come for a moment.
func (s *server) drain(cancel context.CancelFunc) error {
	timer := time.AfterFunc(s.namespace.Drain, cancel)
	defer timer.Stop()
	for before := int64(-1); before != s.arrived.Load(); {
		before = s.arrived.Load()
		s.idle()
		time.Sleep(quiet)
	}
	s.idle()
	if s.nc.IsClosed() {
		return nil
	}
	if err := s.nc.FlushTimeout(time.Second); err != nil {
		return fmt.Errorf("flush the last answers: %w", err)
	}
	return nil
}

// idle waits until no handler runs.
func (s *server) idle() {
	for range cap(s.slots) {
		s.slots <- struct{}{}
	}
	for range cap(s.slots) {
		<-s.slots
	}
}
