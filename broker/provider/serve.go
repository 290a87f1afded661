package provider

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"airlock/job"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

const (
	// pendingCalls and pendingBytes are how much may wait for a free handler
	// before the client drops calls.
	pendingCalls = 4096
	pendingBytes = 64 << 20
	// drainPoll is how often a drain looks whether calls are still open.
	drainPoll = 20 * time.Millisecond
	// flushPatience is how long the server may take to answer before a
	// provider's end counts as failed.
	flushPatience = 30 * time.Second
	// reconnectPatience is how long it may take to come back.
	reconnectPatience = time.Second
	// maxHeader bounds the text in an answer's headers.
	maxHeader = 1000
)

// Serve answers the calls of a namespace until ctx ends. It returns when the
// calls that have arrived by then are answered, or after Namespace.Drain. Any
// number of providers may serve the same namespace; each call goes to one.
// The error is not nil when serving could not begin, or when the connection was
// closed for good.
func Serve(ctx context.Context, nc *nats.Conn, n Namespace) error {
	r, err := NewResponder(n)
	if err != nil {
		return err
	}
	if size, most := n.metadataSize(), int(nc.MaxPayload())/2; size > most {
		return fmt.Errorf("namespace %q: schemas and descriptions are %d bytes, the maximum is %d: serve it in parts", n.Name, size, most)
	}
	for {
		if err := r.awaitHealth(ctx, nc); err != nil || ctx.Err() != nil {
			return err
		}
		if err := r.serveWhileHealthy(ctx, nc); err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// serveWhileHealthy is one service from its announcement to its drain.
func (r *Responder) serveWhileHealthy(ctx context.Context, nc *nats.Conn) error {
	stopped := make(chan struct{})
	service, err := micro.AddService(nc, micro.Config{
		Name: r.namespace.Name, Version: r.namespace.Version, Description: r.namespace.Description,
		DoneHandler: func(micro.Service) { close(stopped) },
	})
	if err != nil {
		return fmt.Errorf("add service: %w", err)
	}
	handling, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	s := &server{Responder: r, nc: nc, instance: service.Info().ID, slots: make(chan struct{}, r.namespace.Parallel)}
	if err := s.begin(handling, service); err != nil {
		return errors.Join(err, service.Stop(), s.drain(cancel))
	}
	ill, forget := r.watchHealth(ctx)
	defer forget()
	select {
	case <-ctx.Done():
	case <-ill:
	case <-stopped:
		return errors.Join(nats.ErrConnectionClosed, s.drain(cancel))
	}
	if err := service.Stop(); err != nil && !nc.IsClosed() {
		return errors.Join(fmt.Errorf("stop service: %w", err), s.drain(cancel))
	}
	return s.drain(cancel)
}

// server handles the calls of one service.
type server struct {
	*Responder
	nc       *nats.Conn
	instance string
	slots    chan struct{}
	cancels  *nats.Subscription
	// open counts the calls without an answer.
	open atomic.Int64
}

func (s *server) begin(ctx context.Context, service micro.Service) (err error) {
	// First, so that no call runs that cannot be cancelled.
	s.cancels, err = s.nc.Subscribe(CancelSubject(s.namespace.Name), func(msg *nats.Msg) { s.Cancel(msg.Header.Get(HeaderCall)) })
	if err != nil {
		return fmt.Errorf("subscribe to cancelled calls: %w", err)
	}
	for _, t := range s.namespace.Tools {
		if err := s.add(ctx, service, s.tools[t.Name]); err != nil {
			return fmt.Errorf("add tool %s: %w", t.Name, err)
		}
	}
	if s.namespace.Ready == nil {
		return nil
	}
	// The server has heard of the subscriptions once it answers. If it does
	// not, the connection is lost, and takes them up when it is back.
	_ = s.flush()
	s.namespace.Ready()
	return nil
}

func (s *server) add(ctx context.Context, service micro.Service, t *checkedTool) error {
	return service.AddEndpoint(t.Name, micro.HandlerFunc(func(r micro.Request) { s.take(ctx, t, r) }),
		micro.WithEndpointSubject(Subject(s.namespace.Name, t.Name)),
		micro.WithEndpointMetadata(t.metadata()),
		micro.WithEndpointPendingLimits(pendingCalls, pendingBytes))
}

// take starts a handler for a call. It runs on the tool's own goroutine, so
// that its calls wait their turn in the client, in bounds, and hold up no other
// tool's.
func (s *server) take(ctx context.Context, t *checkedTool, r micro.Request) {
	if !s.answerable(r.Reply()) {
		return
	}
	s.open.Add(1)
	// micro reads its request again when take has returned, so nothing of it
	// is used by the goroutine.
	call, reply := s.call(t, r), r.Reply()
	leave, err := s.enter(ctx, t, call)
	if err != nil {
		defer s.open.Add(-1)
		s.respond(reply, failed(err))
		return
	}
	go func() {
		defer s.open.Add(-1)
		defer leave()
		answer := s.Answer(ctx, call)
		s.note(call, answer)
		s.respond(reply, answer)
	}()
}

// enter waits for the tool's bounds and then for a free handler, not beyond
// the call's deadline.
func (s *server) enter(ctx context.Context, t *checkedTool, call Call) (leave func(), err error) {
	waiting := ctx
	if !call.Deadline.IsZero() {
		var cancel context.CancelFunc
		waiting, cancel = context.WithDeadline(ctx, call.Deadline)
		defer cancel()
	}
	if err := t.gate.enter(waiting); err != nil {
		if ctx.Err() != nil {
			return nil, unbegun(ctx)
		}
		return nil, fmt.Errorf("wait for a free handler: %w", context.DeadlineExceeded)
	}
	select {
	case s.slots <- struct{}{}:
		return func() { <-s.slots; t.gate.leave() }, nil
	case <-waiting.Done():
		t.gate.leave()
		return nil, unbegun(waiting)
	}
}

// answerable reports whether an answer may go to the subject: the caller
// chooses it, but the provider's rights publish there.
func (s *server) answerable(reply string) bool {
	return strings.HasPrefix(reply, s.namespace.ReplyPrefix) && !strings.ContainsAny(reply, "*> \t\r\n")
}

func (s *server) call(t *checkedTool, r micro.Request) Call {
	h := r.Headers()
	deadline, _ := time.Parse(time.RFC3339Nano, h.Get(HeaderDeadline)) // else none
	return Call{
		Namespace: s.namespace.Name, Tool: t.Name,
		Tenant: h.Get(HeaderTenant), Job: h.Get(HeaderJob), ID: h.Get(HeaderCall),
		IdempotencyKey: h.Get(HeaderIdempotencyKey), TraceParent: h.Get(HeaderTraceParent),
		Deadline: deadline, Arguments: r.Data(),
	}
}

// note logs what only the provider's author can mend. The text may hold what
// the guest sent.
func (s *server) note(call Call, answer Answer) {
	if answer.Code == CodeInternal {
		s.namespace.Log.Warn().Str("namespace", call.Namespace).Str("tool", call.Tool).Str("call", call.ID).Msg("tool failed")
		s.namespace.Log.Debug().Str("call", call.ID).Str("reason", job.PrintableLines(answer.Detail, 8<<10)).Msg("tool failed so")
	}
}

func (s *server) respond(reply string, answer Answer) {
	err := s.publish(reply, answer.Body, headers(answer))
	if errors.Is(err, nats.ErrMaxPayload) {
		too := failed(Errorf(CodeTooLarge, "%d bytes", len(answer.Body)))
		err = s.publish(reply, nil, headers(too))
	}
	// It fails only when the connection does, and then nobody can be told.
	_ = err
}

func headers(answer Answer) nats.Header {
	if answer.Code == "" {
		return nats.Header{}
	}
	header := nats.Header{
		HeaderErrorCode: {answer.Code},
		HeaderError:     {job.Printable(answer.Detail, maxHeader)},
	}
	if answer.Message != "" {
		header.Set(HeaderMessage, job.Printable(answer.Message, maxHeader))
	}
	if answer.Retryable {
		header.Set(HeaderRetryable, "true")
	}
	return header
}

func (s *server) publish(reply string, body []byte, header nats.Header) error {
	header.Set(HeaderProvider, s.instance)
	return s.nc.PublishMsg(&nats.Msg{Subject: reply, Data: body, Header: header})
}

// drain waits for the calls that had arrived, and sees their answers off.
func (s *server) drain(cancel context.CancelFunc) error {
	timer := time.AfterFunc(s.namespace.Drain, cancel)
	defer timer.Stop()
	s.awaitHandedOver()
	for s.open.Load() > 0 {
		time.Sleep(drainPoll)
	}
	if s.nc.IsClosed() {
		return nil
	}
	if s.cancels != nil {
		s.cancels.Unsubscribe() // fails only when the connection is gone as well
	}
	if err := s.flush(); err != nil {
		return fmt.Errorf("flush the last answers: %w", err)
	}
	return nil
}

// flush returns when the server has seen all that was sent to it.
func (s *server) flush() error {
	if s.nc.IsConnected() {
		return s.nc.FlushTimeout(flushPatience)
	}
	return s.nc.FlushTimeout(reconnectPatience)
}

// awaitHandedOver returns when the client holds no calls any more. The service
// has unsubscribed, so that none come once the server has answered; those that
// came before are ahead of a barrier in the queues of their subscriptions.
func (s *server) awaitHandedOver() {
	if s.flush() != nil {
		return // without a server nobody waits for an answer
	}
	passed := make(chan struct{})
	if s.nc.Barrier(func() { close(passed) }) != nil {
		return
	}
	// Another subscription of the connection may take as long as it likes.
	late := time.NewTimer(s.namespace.Drain + flushPatience)
	defer late.Stop()
	select {
	case <-passed:
	case <-late.C:
	}
}
