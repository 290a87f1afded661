package broker

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"airlock/job"

	"github.com/rs/zerolog"
)

// The causes for which a conversation ends that are nobody's fault.
var (
	errChannelEnded = errors.New("the channel ended")
	errLingered     = errors.New("the result was acknowledged")
)

// errFinished is the cause for which open calls end with the result.
var errFinished = errors.New("the result arrived")

// breach is a broken rule of the protocol.
type breach struct{ reason string }

func (b *breach) Error() string { return b.reason }

func breachf(format string, args ...any) error {
	return &breach{job.Printable(fmt.Sprintf(format, args...), 300)}
}

// session is one conversation. One goroutine reads and dispatches, one
// writes, and each request has its own.
type session struct {
	b       *Broker
	attempt *job.Attempt
	clock   job.Clock
	token   string
	log     zerolog.Logger

	ch     *channel
	policy rights
	audit  *recorder
	meter  *meter
	keys   *callKeys
	span   *attemptSpan // nil without a tracer
	// past is nil where no earlier call is answered from the record.
	past *past
	// end ends the conversation; the first cause counts.
	end context.CancelCauseFunc
	// giveUp ends all calls, those to come included.
	giveUp context.CancelCauseFunc

	// outgoing are the frames that wait for the writer, which closes written
	// when it is done.
	outgoing chan outgoing
	written  chan struct{}
	// lingering is the writer's until then.
	lingering *time.Timer
	// artifacts are nil for a job that collects nothing. They are the
	// reader's.
	artifacts *job.Collection

	// slots holds one token per request that is being served.
	slots chan struct{}
	// replying counts the requests without a reply, serving the goroutines,
	// which may have a late answer to wait for.
	replying, serving sync.WaitGroup

	// spoke, seq and finished are the reader's.
	spoke    time.Time
	seq      int
	finished bool

	mu      sync.Mutex
	open    map[uint64]bool // guarded by mu: the ids of open requests
	carried int             // guarded by mu: the calls that policy let through
	quotas  quotas          // guarded by mu: what the operator's rules left of them
	asked   int             // guarded by mu: the calls that persons were asked about
	report  job.Report      // guarded by mu
	lost    error           // guarded by mu: why the audit is not whole
}

// queueLength is how many replies wait for a guest that reads slowly. Beyond
// it requests keep their slots.
const queueLength = 8

func (b *Broker) newSession(a *job.Attempt, rwc io.ReadWriteCloser, clock job.Clock, token string, end context.CancelCauseFunc) *session {
	return &session{
		b: b, attempt: a, clock: whole(clock), token: token, end: end,
		log:       b.cfg.Log.With().Stringer(fieldJob, a.Job.ID).Int(fieldAttempt, a.Number).Logger(),
		ch:        newChannel(rwc, maxFrames(a.Job), b.cfg.MaxBytes, b.cfg.WriteTimeout),
		policy:    b.newRights(a.Job),
		keys:      newCallKeys(),
		artifacts: b.newCollection(a.Job),
		outgoing:  make(chan outgoing, queueLength),
		written:   make(chan struct{}),
		slots:     make(chan struct{}, b.cfg.Parallel),
		open:      map[uint64]bool{},
	}
}

// whole fills the hooks that a caller left out.
func whole(c job.Clock) job.Clock {
	for _, hook := range []*func(){&c.Start, &c.Pause, &c.Resume} {
		if *hook == nil {
			*hook = func() {}
		}
	}
	return c
}

// run holds the conversation and returns when nothing of it is left. The end
// of ctx has the cause then.
func (s *session) run(ctx context.Context) {
	calls, giveUp := context.WithCancelCause(ctx)
	s.giveUp = giveUp
	s.meter = newMeter(s.attempt.Job.Limits.ToolTime.Std(), func() { giveUp(errToolTime) })

	cause := s.greet(ctx)
	if cause == nil {
		go s.write(ctx)
		cause = s.dispatchAll(ctx, calls)
		giveUp(cause)
		if !errors.Is(cause, errChannelEnded) {
			s.end(cause)
		}
		// A guest that has stopped sending may still read.
		s.replying.Wait()
		close(s.outgoing)
		<-s.written
	}
	giveUp(cause)
	s.end(cause)
	s.serving.Wait()
	if s.lingering != nil {
		s.lingering.Stop()
	}
}

// greet takes the hello and hands over the job.
func (s *session) greet(ctx context.Context) error {
	timer := time.AfterFunc(s.b.cfg.HelloTimeout, func() { s.end(ErrNoHello) })
	defer timer.Stop()
	msg, err := s.receive(ctx)
	if err != nil {
		return err
	}
	if msg.Method != MethodHello {
		return breachf("the first frame is %s, want hello", msg.Method)
	}
	if !s.authentic(msg.Hello.Token) {
		return breachf("wrong token")
	}
	timer.Stop()
	s.report.Ready = time.Now()
	s.report.Python = job.Printable(msg.Hello.Python, maxPython)
	body, err := s.b.encodeJob(s.attempt.Job, s.tools(ctx))
	if err != nil {
		return fmt.Errorf("%w: encode the job: %w", errOurs, err)
	}
	if err := s.writeOne(body); err != nil {
		return err
	}
	s.report.Sent = time.Now()
	s.clock.Start()
	return nil
}

// authentic compares in constant time whatever the lengths are. A token where
// none is wanted is as wrong as none where one is.
func (s *session) authentic(token *string) bool {
	if token == nil || s.token == "" {
		return token == nil && s.token == ""
	}
	got, want := sha256.Sum256([]byte(*token)), sha256.Sum256([]byte(s.token))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

// receive reads and decodes one frame. Its error is the cause of the end.
func (s *session) receive(ctx context.Context) (*Message, error) {
	body, err := s.ch.read()
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, ErrFrame) || errors.Is(err, errOverdrawn):
		return nil, breachf("%v", err)
	case err != nil:
		return nil, errChannelEnded
	}
	msg, err := DecodeMessage(body)
	if err != nil {
		return nil, breachf("%v", err)
	}
	return msg, nil
}

// dispatchAll serves requests until the conversation ends.
func (s *session) dispatchAll(ctx, calls context.Context) error {
	for {
		msg, err := s.receive(ctx)
		if err != nil {
			return err
		}
		if s.spoke.IsZero() {
			s.spoke = time.Now()
		}
		if err := s.dispatch(ctx, calls, msg); err != nil {
			return err
		}
	}
}

func (s *session) dispatch(ctx, calls context.Context, msg *Message) error {
	if msg.Method == MethodHello {
		return breachf("a second hello")
	}
	if msg.Method == MethodArtifact {
		return s.takeArtifact(msg.Artifact)
	}
	if !s.claim(msg.ID) {
		return breachf("id %d is open already", msg.ID)
	}
	if msg.Method == MethodResult {
		return s.takeResult(ctx, msg)
	}
	// Past this many the guest's frames wait in the channel.
	select {
	case s.slots <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s.clock.Pause()
	s.replying.Add(1)
	if finished := s.finished; msg.Method == MethodListTools {
		s.serving.Go(func() { s.listTools(ctx, calls, msg.ID, finished) })
		return nil
	}
	s.seq++
	f := s.newFlight(msg, s.seq, s.finished)
	s.serving.Go(func() { f.run(ctx, calls) })
	return nil
}

// takeResult ends all calls, and then acknowledges.
func (s *session) takeResult(ctx context.Context, msg *Message) error {
	if s.finished {
		return breachf("a second result")
	}
	artifacts, err := s.artifactsEnd(msg.Result)
	if err != nil {
		return err
	}
	s.finished = true
	s.giveUp(errFinished)
	s.replying.Wait()
	no := s.record(msg.Result, artifacts)
	s.unclaim(msg.ID)
	reply := okReply(msg.ID, nil)
	if no != nil {
		reply = errorReply(msg.ID, no, nil)
	}
	s.sendThen(ctx, reply, s.linger)
	return nil
}

// linger leaves the guest a while from its acknowledgement on, however long
// that took to be written.
func (s *session) linger() {
	s.lingering = time.AfterFunc(s.b.cfg.Linger, func() { s.end(errLingered) })
}

func (s *session) listTools(ctx, calls context.Context, id uint64, finished bool) {
	if finished {
		s.reply(ctx, id, errorReply(id, refusef(CodeFinished, "the result has been given"), nil))
		return
	}
	body, err := listed(s.tools(calls), true)
	if err != nil {
		s.log.Error().Err(err).Msg("tools do not encode")
		s.reply(ctx, id, errorReply(id, refusef(CodeNoProvider, "the tools cannot be listed"), nil))
		return
	}
	s.reply(ctx, id, okReply(id, body))
}

// claim opens a request's id; it returns false when it is open already.
func (s *session) claim(id uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[id] {
		return false
	}
	s.open[id] = true
	return true
}

func (s *session) unclaim(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, id)
}

// reply closes a request that was served in a slot. The id is free before the
// guest can have seen the reply.
func (s *session) reply(ctx context.Context, id uint64, body []byte) {
	s.unclaim(id)
	s.send(ctx, body)
	s.clock.Resume()
	<-s.slots
	s.replying.Done()
}
