package worker

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"airlock/job"
	"airlock/worker/failpoint"
	"airlock/worker/trace"
)

// Ledger is where claims and ends are decided. Its errors wrap
// job.ErrUnreachable when trying again is right, and job.ErrFenced when the
// attempt is no longer ours.
type Ledger interface {
	Claim(ctx context.Context, r job.ClaimRequest) (job.Claim, error)
	Heartbeat(ctx context.Context, worker string, held []job.Holding) ([]job.Heartbeat, error)
	Finish(ctx context.Context, a *job.Attempt, r *job.Result, linger time.Duration) error
	Retry(ctx context.Context, a *job.Attempt, r *job.Result, after time.Duration) (job.State, error)
	Release(ctx context.Context, a *job.Attempt) error
	Announced(ctx context.Context, id job.ID, linger time.Duration) error
	// Attempts are all tries at a job, for its result; none if there was one.
	Attempts(ctx context.Context, id job.ID) ([]job.AttemptRecord, error)
}

// Announcer tells submitters of a result that is committed.
type Announcer interface {
	Announce(ctx context.Context, r *job.Result) error
}

// ToolServer holds a guest's conversation.
type ToolServer interface {
	Serve(ctx context.Context, a *job.Attempt, channel io.ReadWriteCloser, clock job.Clock) (*job.Report, error)
}

// Config is what a Worker needs. All fields but Max, Cancelled, Ended, Events, Meter,
// Trace and Fail are required.
type Config struct {
	// ID is new for each process, so that a restarted worker is another one.
	ID      string
	Ledger  Ledger
	Results Announcer
	Tools   ToolServer
	// Sandboxes are looked at for each job, so that they may change.
	Sandboxes *Sandboxes
	// Max are the operator's ceilings; zero fields mean job.MaxLimits.
	Max job.Limits
	// Cancelled reports whether somebody asked for the job's end before it
	// was claimed.
	Cancelled func(j *job.Job) bool
	// Ended is told of each attempt whether the backend failed it. It must
	// be quick.
	Ended func(backend string, failed bool)
	// Events, if set, is told what happens to attempts while they run. It must
	// wait for nothing, and may be called from several goroutines. It is given
	// what a guest printed to read, not to keep.
	Events func(j *job.Job, n job.News)
	// Meter, if set, counts.
	Meter Meter
	// Trace, if set, is told where the time of each attempt went.
	Trace *trace.File
	// Fail are the points at which a test has this worker fail.
	Fail *failpoint.Points
	Log  zerolog.Logger
}

// Worker runs attempts. Its methods may be called from several goroutines.
type Worker struct {
	cfg Config

	mu sync.Mutex
	// held are the attempts that run now, by job. Guarded by mu.
	held map[job.ID]*lease

	// behind is whether jobs waited behind the one that came last.
	behind atomic.Bool

	failures failures
}

// New makes a worker; Heartbeat must run while it handles deliveries.
func New(cfg Config) *Worker {
	if cfg.Cancelled == nil {
		cfg.Cancelled = func(*job.Job) bool { return false }
	}
	if cfg.Ended == nil {
		cfg.Ended = func(string, bool) {}
	}
	if cfg.Meter == nil {
		cfg.Meter = unmetered{}
	}
	return &Worker{cfg: cfg, held: map[job.ID]*lease{}}
}

// Running is how many attempts run now.
func (w *Worker) Running() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.held)
}

// Cancel ends the running attempts whose job matches, as cancelled.
func (w *Worker) Cancel(match func(*job.Job) bool) {
	for _, l := range w.leases() {
		if match(l.attempt.Job) {
			l.end(job.ErrCancelled)
		}
	}
}

// HandBack ends all running attempts and gives their jobs back to the queue
// without counting the attempt. It is what remains when a drain takes too
// long.
func (w *Worker) HandBack() {
	for _, l := range w.leases() {
		l.end(job.ErrShutdown)
	}
}
