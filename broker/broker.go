package broker

import (
	"cmp"
	"context"
	"errors"
	"io"
	"runtime"
	"time"

	"airlock/broker/policy"
	"airlock/job"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/trace"
)

// Config is what a Broker needs. The durations and counts may be zero, which
// stands for the values of PROTOCOL.md.
type Config struct {
	// Tools finds and calls tools; *Catalogue does over NATS.
	Tools Tools
	// Audit records each call.
	Audit Auditor
	// Policy, if set, is asked once for each conversation, which keeps what
	// it got: nil is no policy.
	Policy func() *policy.Policy
	// Approvals has people decide about the calls that the policy wants
	// approved; without it these are refused.
	Approvals Approvals
	// Past, if set, has the calls that were recorded before, for later
	// attempts and for replays. Without it a later attempt makes all calls
	// again, and every call of a replay is refused.
	Past Past
	Log  zerolog.Logger
	// Tracer makes a span for each attempt and each of its calls, which
	// providers are told of; nil makes none.
	Tracer trace.Tracer
	// Meter, if set, counts.
	Meter Meter

	// HelloTimeout is how long a guest may take to say hello: 20 s.
	HelloTimeout time.Duration
	// WriteTimeout is how long a guest may take to read a frame, or each 64 KiB
	// of a longer one: 10 s.
	WriteTimeout time.Duration
	// CallTimeout bounds one call: 30 s.
	CallTimeout time.Duration
	// Grace is how long the end of a conversation waits for the answers of
	// calls that it cancelled, to record them as late: 250 ms.
	Grace time.Duration
	// Linger is how long requests after the result are still refused in
	// form: 2 s.
	Linger time.Duration
	// Parallel is how many requests of one guest are carried at once: 64.
	Parallel int
	// MaxBytes bounds what one guest sends, and what it is sent: 256 MiB.
	MaxBytes int64
	// MaxArtifacts bounds the content of the files that one guest brings
	// back: job.MaxArtifactBytes, which is also the most.
	MaxArtifacts job.Size
	// MaxCache bounds the answers that are kept to be given again: 64 MiB.
	MaxCache int64
}

func (c Config) withDefaults() Config {
	c.HelloTimeout = cmp.Or(c.HelloTimeout, 20*time.Second)
	c.WriteTimeout = cmp.Or(c.WriteTimeout, 10*time.Second)
	c.CallTimeout = cmp.Or(c.CallTimeout, 30*time.Second)
	c.Grace = cmp.Or(c.Grace, 250*time.Millisecond)
	c.Linger = cmp.Or(c.Linger, 2*time.Second)
	c.Parallel = cmp.Or(c.Parallel, 64)
	c.MaxBytes = cmp.Or(c.MaxBytes, 256<<20)
	c.MaxCache = cmp.Or(c.MaxCache, 64<<20)
	c.MaxArtifacts = min(cmp.Or(c.MaxArtifacts, job.MaxArtifactBytes), job.MaxArtifactBytes)
	if c.Meter == nil {
		c.Meter = unmetered{}
	}
	return c
}

// maxFrames is the budget of frames from a guest.
func maxFrames(j *job.Job) int {
	frames := 1000 + 4*j.Limits.ToolCalls
	if len(j.Collect) > 0 {
		frames += artifactFrames
	}
	return frames
}

// The errors by which Serve says that the guest must be ended. Besides these
// it may return job.ErrFenced and ErrAudit.
var (
	// ErrBreach: the guest broke the protocol; Report.Breach says how.
	ErrBreach = errors.New("guest broke the channel's protocol")
	// ErrNoHello: the guest was not ready in time, which is our failure.
	ErrNoHello = errors.New("guest did not say hello in time")
)

// Broker holds conversations with guests. It may hold many at once.
type Broker struct {
	cfg Config
	// checks bounds how many arguments are held against schemas at once: it
	// is work for a processor, and failures are told at length.
	checks chan struct{}

	limiters limiters
	breakers breakers
	cache    cache
}

// New makes a Broker. It starts nothing.
func New(cfg Config) *Broker {
	cfg = cfg.withDefaults()
	return &Broker{
		cfg: cfg, checks: make(chan struct{}, runtime.GOMAXPROCS(0)),
		breakers: breakers{log: cfg.Log}, cache: cache{max: cfg.MaxCache},
	}
}

// Serve holds one guest's conversation on ch, on which nobody else can speak,
// for the attempt a, whose job is prepared. It returns when the channel or ctx
// has ended, or a moment after the result was acknowledged, and then no call
// of the guest is open and no goroutine of Serve is left. It never returns a
// nil Report.
//
// The error is not nil when the guest must be ended: ErrBreach, ErrNoHello,
// job.ErrFenced (nothing more may be written for this attempt), ErrAudit (what
// the guest did is not known in full), or an error of our own before the guest
// got its job. The end of ctx is no error.
//
// When Serve has to wake itself it sets deadlines on ch in the past, or closes
// ch if it has none.
func (b *Broker) Serve(ctx context.Context, a *job.Attempt, ch io.ReadWriteCloser, clock job.Clock) (*job.Report, error) {
	return b.serve(ctx, a, ch, clock, "")
}

// ServeToken is Serve for a channel to which others could connect: the guest
// must prove itself with the token, which nobody has used before.
func (b *Broker) ServeToken(ctx context.Context, a *job.Attempt, ch io.ReadWriteCloser, clock job.Clock, token string) (*job.Report, error) {
	if token == "" {
		return &job.Report{}, errors.New("serve a connectable channel: the token is empty")
	}
	return b.serve(ctx, a, ch, clock, token)
}

func (b *Broker) serve(ctx context.Context, a *job.Attempt, rwc io.ReadWriteCloser, clock job.Clock, token string) (*job.Report, error) {
	inner, end := context.WithCancelCause(ctx)
	defer end(nil)
	s := b.newSession(a, rwc, clock, token, end)
	s.audit = newRecorder(b.cfg.Audit, b.cfg.Meter, a, func() bool { return fencedOff(ctx) })
	stop := context.AfterFunc(inner, s.ch.interrupt)
	defer stop()

	var err error
	if s.past, err = b.remember(inner, a); err != nil {
		s.ch.release()
		return &job.Report{}, err
	}
	s.span = b.beginSpan(a)
	s.run(inner)
	s.ch.release()
	report, err := s.finish(context.Cause(inner))
	s.span.end(err)
	return report, err
}
