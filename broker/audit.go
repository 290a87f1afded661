package broker

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"airlock/job"
)

// Auditor records calls. Its methods may be called from several goroutines,
// and the calls of one attempt may be recorded in any order.
type Auditor interface {
	// CallStarted returns nil once the call is durable: only then is it made.
	CallStarted(ctx context.Context, a *job.Attempt, c job.Call) error
	// CallEnded records the end of a started call, or a refused call whole.
	CallEnded(ctx context.Context, a *job.Attempt, c job.Call) error
}

// ErrAudit is wrapped by Serve's error when the end of a call could not be
// recorded: what the attempt did is no longer known in full.
var ErrAudit = errors.New("audit lost")

// The audit's patience while the database cannot be reached: longer than it
// takes to restart, shorter than the margin of a lease.
const (
	auditTimeout  = 10 * time.Second
	auditPause    = 50 * time.Millisecond
	auditMaxPause = time.Second
)

// recorder numbers the links of one attempt's chain and records its calls.
type recorder struct {
	auditor Auditor
	meter   Meter
	attempt *job.Attempt
	// fenced reports whether nothing more may be written.
	fenced func() bool

	mu   sync.Mutex
	head []byte // guarded by mu
	link int    // guarded by mu
}

func newRecorder(auditor Auditor, meter Meter, a *job.Attempt, fenced func() bool) *recorder {
	return &recorder{auditor: auditor, meter: meter, attempt: a, fenced: fenced, head: Genesis(a.Job.ID, a.Number)}
}

// headHex is the head of the chain so far.
func (r *recorder) headHex() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return hex.EncodeToString(r.head)
}

// started records that a call is about to be made.
func (r *recorder) started(ctx context.Context, c *job.Call) error {
	c.State = job.CallStarted
	r.mu.Lock()
	r.link++
	r.head = startHash(r.head, c)
	c.StartLink, c.StartHash = r.link, r.head
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, auditTimeout)
	defer cancel()
	began := time.Now()
	err := persist(ctx, func() error { return r.auditor.CallStarted(ctx, r.attempt, *c) })
	r.meter.Audited(true, time.Since(began), err)
	return err
}

// ended records how a call ended. It is done also when ctx has ended: a call
// that was made leaves a row whose end is told, unless the lease is lost, and
// then nothing more may be written.
func (r *recorder) ended(ctx context.Context, c *job.Call) error {
	if r.fenced() {
		return job.ErrFenced
	}
	c.Ended = timestamp()
	r.mu.Lock()
	r.link++
	r.head = endHash(r.head, c)
	c.EndLink, c.EndHash = r.link, r.head
	r.mu.Unlock()

	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditTimeout)
	defer cancel()
	began := time.Now()
	err := persist(ctx, func() error { return r.auditor.CallEnded(ctx, r.attempt, *c) })
	r.meter.Audited(false, time.Since(began), err)
	if err != nil && !errors.Is(err, job.ErrFenced) {
		return fmt.Errorf("%w: call %d: %w", ErrAudit, c.Seq, err)
	}
	return err
}

// persist writes once, and again for as long as nobody can be reached: writing
// the same row twice is harmless.
func persist(ctx context.Context, write func() error) error {
	for pause := auditPause; ; pause = min(2*pause, auditMaxPause) {
		err := write()
		if err == nil || !errors.Is(err, job.ErrUnreachable) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// fencedOff reports whether ctx ended since another worker may hold the job.
func fencedOff(ctx context.Context) bool {
	cause := context.Cause(ctx)
	return errors.Is(cause, job.ErrLeaseLost) || errors.Is(cause, job.ErrFenced)
}

// timestamp is now as the database will give it back.
func timestamp() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }
