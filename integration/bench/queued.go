package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"airlock/job"
	"airlock/queue"
)

// load is what many jobs at once cost.
type load struct {
	ID   string `json:"id"`
	Jobs int    `json:"jobs"`
	// Lost is how many have no result.
	Lost int `json:"lost"`
	// SubmitRate is of the submission alone, Rate of the results.
	SubmitRate float64 `json:"submit_per_s,omitzero"`
	Rate       float64 `json:"jobs_per_s"`
	// P50 and P99 are those of another job meanwhile, in milliseconds.
	P50 float64 `json:"other_p50_ms,omitzero"`
	P99 float64 `json:"other_p99_ms,omitzero"`
	// The most memory that each held, in MiB. NATS is in the process of the
	// standalone worker, which runs none of these jobs.
	Worker   float64 `json:"worker_mib,omitzero"`
	NATS     float64 `json:"nats_mib,omitzero"`
	Submit   float64 `json:"submit_mib,omitzero"`
	Postgres float64 `json:"postgres_mib,omitzero"`
	Gateway  float64 `json:"gateway_mib,omitzero"`
}

// depths are how many jobs wait at once.
func (b *bencher) depths() []int {
	switch {
	case b.million:
		return []int{10, 100, 1000, 10_000, 100_000, 1_000_000}
	case b.quick:
		return []int{10, 1000, 10_000}
	}
	return []int{10, 100, 1000, 10_000, 100_000}
}

// late is a label that only a worker has that is started later, so that jobs
// that require it wait.
const late = "bench=late"

var waiting = job.Job{Code: "1", Requires: job.Requirement{
	Isolation: job.IsolationNone, Backends: []string{"fake"}, Labels: map[string]string{"bench": "late"},
}}

// queued fills the queue, sees what another job takes meanwhile, and empties
// it again.
func (b *bencher) queued(ctx context.Context) error {
	for _, n := range b.depths() {
		id := fmt.Sprintf("queued/%d", n)
		if !b.wants(id) {
			continue
		}
		err := b.measure(ctx, []string{"--backends", "fake", "--slots", "64"}, nil, func(p *pool) error {
			l, err := b.fillAndDrain(ctx, p, n)
			l.ID = id
			b.report.Loads = append(b.report.Loads, l)
			return err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", id, err)
		}
	}
	return nil
}

func (b *bencher) fillAndDrain(ctx context.Context, p *pool, n int) (load, error) {
	l := load{Jobs: n}
	batch := "bench-" + job.NewID().String()
	if _, err := p.run(ctx, series{name: "warm-up", job: nothing, count: 200, inFlight: 1}); err != nil {
		return l, err
	}
	began := time.Now()
	if err := p.fill(ctx, batch, n); err != nil {
		return l, err
	}
	l.SubmitRate = perSecond(n, time.Since(began))
	other, err := p.run(ctx, series{name: "another job", job: nothing, count: 200, inFlight: 1})
	if err != nil {
		return l, err
	}
	r := other.row()
	l.P50, l.P99 = r.P50, r.P99
	w, err := b.startLate(ctx, p)
	if err != nil {
		return l, err
	}
	defer w.stop()
	if l.Rate, err = p.drain(ctx, batch, n); err != nil {
		return l, err
	}
	l.weigh(p, w)
	return l, nil
}

// startLate starts the worker that has the label.
func (b *bencher) startLate(ctx context.Context, p *pool) (*worker, error) {
	return startWorker(ctx, b.bin, p.env, "--backends", "fake", "--slots", "64", "--labels", late, "--log-level", "warn")
}

// weigh reads the most that each process held until now.
func (l *load) weigh(p *pool, w *worker) {
	l.Worker, l.NATS = peak(w.pid()), peak(p.pid())
	if m, ok := held(p.postgres()...); ok {
		l.Postgres = m.pss
	}
}

// perTenant is below what the queue lets one tenant have in a lane.
const perTenant = 90_000

func tenant(i int) string { return fmt.Sprintf("bench%d", i/perTenant) }

func (p *pool) fill(ctx context.Context, batch string, n int) error {
	group, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for range maxSubmitters {
		group.Go(func() error {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				one := waiting
				one.ID, one.Batch, one.Tenant = job.NewID(), batch, tenant(i)
				if err := one.Prepare(time.Now()); err != nil {
					return err
				}
				if _, err := p.queue.Submit(ctx, &one, queue.SubmitOptions{Park: true}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// drainTime bounds how long a queue is emptied for its rate: of a million jobs
// the first part tells it.
const drainTime = 3 * time.Minute

// drain waits until each job has its result, or for drainTime. The rate is from
// the first result on: until then a worker starts.
func (p *pool) drain(ctx context.Context, batch string, n int) (rate float64, err error) {
	limited, stop := context.WithTimeout(ctx, drainTime)
	defer stop()
	var once sync.Once
	var first time.Time
	var seen atomic.Int64
	group, watching := errgroup.WithContext(limited)
	for from := 0; from < n; from += perTenant {
		left := min(perTenant, n-from)
		ended := map[job.ID]bool{}
		group.Go(func() error {
			err := p.watch(watching, tenant(from), batch, func(r *job.Result) error {
				once.Do(func() { first = time.Now() })
				seen.Add(1)
				if ended[r.Job] = true; len(ended) == left {
					return errAllSeen
				}
				return nil
			})
			if errors.Is(err, errAllSeen) {
				return nil
			}
			return err
		})
	}
	err = group.Wait()
	if limited.Err() != nil && ctx.Err() == nil && seen.Load() > 0 {
		err = nil
	}
	return perSecond(int(seen.Load())-1, time.Since(first)), err
}

// batches has bin/submit run whole files, and looks at what it and the worker
// hold meanwhile.
func (b *bencher) batches(ctx context.Context) error {
	sizes := []int{1000, 10_000, 100_000}
	if b.quick {
		sizes = sizes[:2]
	}
	for _, n := range sizes {
		id := fmt.Sprintf("batch/%d", n)
		if !b.wants(id) {
			continue
		}
		err := b.measure(ctx, []string{"--backends", "fake", "--slots", "64"}, nil, func(p *pool) error {
			l, err := b.batch(ctx, p, n)
			l.ID = id
			b.report.Loads = append(b.report.Loads, l)
			return err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", id, err)
		}
	}
	return nil
}

func (b *bencher) batch(ctx context.Context, p *pool, n int) (load, error) {
	l := load{Jobs: n}
	file, out := filepath.Join(p.dir, "bench.jsonl"), filepath.Join(p.dir, "results.jsonl")
	line := `{"code":"1","requires":{"isolation":"none","backends":["fake"],"labels":{"bench":"late"}}}` + "\n"
	w, err := b.startLate(ctx, p)
	if err != nil {
		return l, err
	}
	defer w.stop()
	if err := os.WriteFile(file, []byte(strings.Repeat(line, n)), 0o600); err != nil {
		return l, err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(b.bin, "submit"), "batch", file, "-o", out, "--quiet")
	cmd.Env = append(os.Environ(), p.env...)
	cmd.Stderr = os.Stderr
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return l, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for running := true; running; {
		select {
		case <-tick.C:
			l.Submit = max(l.Submit, peak(cmd.Process.Pid))
		case err := <-ended:
			if running = false; err != nil {
				return l, fmt.Errorf("submit batch: %w", err)
			}
		}
	}
	l.Rate = perSecond(n, time.Since(began))
	l.weigh(p, w)
	results, err := os.ReadFile(out)
	l.Lost = n - strings.Count(string(results), "\n")
	return l, err
}

// kind is what the load's ID begins with.
func (l load) kind() string { kind, _, _ := strings.Cut(l.ID, "/"); return kind }
