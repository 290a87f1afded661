package main

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"airlock/job"
	"airlock/queue"
)

// What users of one queue do to one another and to their own jobs.
var (
	// long runs until it is cancelled; longFake is the same without a sandbox.
	long     = job.Job{Code: "import time\ntime.sleep(60)", Limits: job.Limits{Wall: job.Duration(90 * time.Second)}}
	longFake = job.Job{Code: `{"fake": {"sleep": "60s"}}`, Limits: long.Limits, Requires: nothing.Requires}
	// brief is a noisy tenant's job, and the quiet one's.
	brief = job.Job{Code: fmt.Sprintf(`{"fake": {"sleep": "%dms", "value": 1}}`, briefMS), Requires: nothing.Requires}
)

const (
	briefMS = 20
	// noise is how many jobs one tenant has queued, below its quota.
	noise = 50_000
	// askEvery is how often a job is looked for that is about to run.
	askEvery = 5 * time.Millisecond
	cancels  = 100
	quietly  = 50
)

// cancelling measures from the request until the result was seen of a job that
// runs.
func (b *bencher) cancelling(ctx context.Context) error {
	rows := []series{{id: "cancel/fake", name: "cancelling a running job, no sandbox (fake)", job: longFake, count: b.n(cancels)}}
	backends := []string{"fake"}
	if len(b.backends) > 0 {
		x := b.backends[0].name
		rows = append(rows, series{id: "cancel/sandbox", name: "cancelling a running job, " + x, job: long, count: b.n(cancels)})
		backends = append(backends, x)
	}
	for i, s := range rows {
		if !b.takes(s) {
			continue
		}
		err := b.measure(ctx, []string{"--backends", backends[i], "--slots", "2"}, nil, func(p *pool) error {
			f, err := p.cancelEach(ctx, s)
			if err == nil {
				b.report.add(f.row())
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", s.id, err)
		}
	}
	return nil
}

func (p *pool) cancelEach(ctx context.Context, s series) (*figure, error) {
	f := newFigure(s)
	batch := "bench-" + job.NewID().String()
	results, err := p.queue.Results(ctx, job.DefaultTenant, batch, job.ID{})
	if err != nil {
		return nil, err
	}
	defer results.Stop()
	for range s.count {
		id, err := p.submitOne(ctx, s.job, job.DefaultTenant, batch)
		if err == nil {
			err = p.awaitRunning(ctx, id)
		}
		if err != nil {
			return nil, err
		}
		asked := time.Now()
		if err := p.queue.Cancel(ctx, job.DefaultTenant, queue.CancelTarget{Job: id}); err != nil {
			return nil, err
		}
		r, err := results.Next(ctx)
		if err != nil {
			return nil, err
		}
		if r.Job != id || r.Status != job.StatusCancelled {
			return nil, fmt.Errorf("job %s ended as %s, want %s cancelled", r.Job, r.Status, id)
		}
		f.add(time.Since(asked), 0, 0)
	}
	return f, nil
}

func (p *pool) submitOne(ctx context.Context, j job.Job, tenant, batch string) (job.ID, error) {
	j.ID, j.Tenant, j.Batch = job.NewID(), tenant, batch
	if err := j.Prepare(time.Now()); err != nil {
		return j.ID, err
	}
	_, err := p.queue.Submit(ctx, &j, queue.SubmitOptions{})
	return j.ID, err
}

func (p *pool) awaitRunning(ctx context.Context, id job.ID) error {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		var r job.Record
		// Not known yet is no reason to stop.
		if err := p.queue.Ask(ctx, job.DefaultTenant, "status", struct {
			ID job.ID `json:"id"`
		}{id}, &r); err == nil && r.State == job.StateRunning {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// noisy measures a tenant's single job while another tenant has very many.
func (b *bencher) noisy(ctx context.Context) error {
	s := series{id: "noisy/quiet", name: fmt.Sprintf("a %d ms job behind %d of another tenant, no sandbox, 2 slots", briefMS, b.n(noise)), job: brief, count: b.n(quietly)}
	if !b.takes(s) {
		return nil
	}
	// A queue of one day of them fits.
	args := []string{"--backends", "fake", "--slots", "2", "--tenant-quota", strconv.Itoa(2 * noise)}
	return b.measure(ctx, args, nil, func(p *pool) error {
		if err := p.flood(ctx, b.n(noise)); err != nil {
			return err
		}
		f, err := p.quiet(ctx, s)
		if err == nil {
			b.report.add(f.row())
		}
		return err
	})
}

func (p *pool) flood(ctx context.Context, n int) error {
	group, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for range maxSubmitters {
		group.Go(func() error {
			for int(next.Add(1)) <= n {
				if _, err := p.submitOne(ctx, brief, "noisy", "noise"); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

func (p *pool) quiet(ctx context.Context, s series) (*figure, error) {
	f := newFigure(s)
	batch := "bench-" + job.NewID().String()
	results, err := p.queue.Results(ctx, job.DefaultTenant, batch, job.ID{})
	if err != nil {
		return nil, err
	}
	defer results.Stop()
	for range s.count {
		asked := time.Now()
		if _, err := p.submitOne(ctx, s.job, job.DefaultTenant, batch); err != nil {
			return nil, err
		}
		if _, err := results.Next(ctx); err != nil {
			return nil, err
		}
		f.add(time.Since(asked), 0, 0)
	}
	return f, nil
}
