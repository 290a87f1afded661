package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"airlock/job"
	"airlock/queue"
	"airlock/store"
)

// trial is a promise that was put to the test, and the figure it gave.
type trial struct {
	ID     string  `json:"id"`
	Name   string  `json:"name"`
	Value  float64 `json:"value"`
	Unit   string  `json:"unit"`
	Detail string  `json:"detail"`
}

// recovery measures what happens when something dies, and whether workers that
// share a lane share its jobs. That takes the time of a lease, so that a quick
// run does without.
func (b *bencher) recovery(ctx context.Context) error {
	var failed []error
	for _, t := range []struct {
		id    string
		whole bool
		run   func(context.Context) (trial, error)
	}{
		{"recovery/claims", false, b.shareLane},
		{"recovery/worker", true, b.loseWorker},
		{"recovery/leader", true, b.loseLeader},
	} {
		if !b.wants(t.id) || t.whole && b.quick {
			continue
		}
		got, err := t.run(ctx)
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", t.id, err))
			continue
		}
		got.ID = t.id
		b.report.Trials = append(b.report.Trials, got)
	}
	return errors.Join(failed...)
}

const (
	// sharers is how many workers have one lane, sharedJobs how many jobs
	// there are for each, and sharedWork what each takes.
	sharers    = 16
	sharedJobs = 100
	sharedWork = 2 * time.Millisecond
)

// shareLane has workers with a slot each empty one lane, and reports how many
// jobs the one got that got fewest, of its share.
func (b *bencher) shareLane(ctx context.Context) (t trial, err error) {
	err = b.measure(ctx, []string{"--backends", "fake", "--slots", "1"}, nil, func(p *pool) error {
		jobs := b.n(sharedJobs) * sharers
		claims, err := p.share(ctx, jobs)
		if err != nil {
			return err
		}
		slices.Sort(claims)
		t = trial{
			Name: fmt.Sprintf("%d workers on one lane, fewest claims of one over the mean", sharers), Unit: "times",
			Value:  float64(claims[0]) * sharers / float64(jobs),
			Detail: fmt.Sprintf("%d jobs, %d to %d each", jobs, claims[0], claims[sharers-1]),
		}
		return nil
	})
	return t, err
}

// share has as many consumers as there are sharers take so many jobs, and
// returns how many each took. The jobs come once each has had one.
func (p *pool) share(ctx context.Context, jobs int) ([]int, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	claims := make([]atomic.Int64, sharers)
	group, ctx := errgroup.WithContext(ctx)
	for i := range sharers {
		group.Go(func() error {
			return p.consume(ctx, func(ctx context.Context, d job.Delivery) {
				time.Sleep(sharedWork)
				if d.Ack(ctx) == nil { // else it comes again
					claims[i].Add(1)
				}
			})
		})
	}
	var counts []int
	group.Go(func() (err error) {
		defer stop()
		counts, err = p.deal(ctx, claims, jobs)
		return err
	})
	return counts, group.Wait()
}

// deal submits jobs until each consumer had one, then those that count.
func (p *pool) deal(ctx context.Context, claims []atomic.Int64, jobs int) (counts []int, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	sent := 0
	send := func(n int) error {
		if err := p.fill(ctx, "shared", n); err != nil {
			return err
		}
		sent += n
		return untilClaimed(ctx, claims, sent)
	}
	for slices.Contains(claimed(claims), 0) {
		if err := send(sharers); err != nil {
			return nil, err
		}
	}
	before := claimed(claims)
	if err := send(jobs); err != nil {
		return nil, err
	}
	counts = claimed(claims)
	for i := range counts {
		counts[i] -= before[i]
	}
	return counts, nil
}

func claimed(claims []atomic.Int64) []int {
	counts := make([]int, len(claims))
	for i := range claims {
		counts[i] = int(claims[i].Load())
	}
	return counts
}

func untilClaimed(ctx context.Context, claims []atomic.Int64, all int) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		sum := 0
		for _, n := range claimed(claims) {
			sum += n
		}
		if sum >= all {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for %d claims, of which there are %v: %w", all, claimed(claims), context.Cause(ctx))
		}
	}
}

// consume is a worker's side of the queue, without the rest of it. It takes
// the jobs that wait for startLate's worker.
func (p *pool) consume(ctx context.Context, handle queue.Handler) error {
	nc, err := queue.Connect(ctx, p.url, "bench", zerolog.Nop())
	if err != nil {
		return err
	}
	defer nc.Close()
	q, err := queue.Open(ctx, nc, queue.Config{})
	if err != nil {
		return err
	}
	offer := job.Offer{Backend: "fake", Isolation: job.IsolationNone, OS: "linux", Arch: "amd64", Labels: waiting.Requires.Labels}
	err = q.Consume(ctx, queue.ConsumerConfig{Slots: 1, Handler: handle, Offers: func() []job.Offer { return []job.Offer{offer} }})
	return errors.Join(err, q.Close())
}

// heldJobs is how many jobs a worker has that is killed.
const heldJobs = 8

// loseWorker kills a worker with jobs, and reports when the last of them had
// its result from another.
func (b *bencher) loseWorker(ctx context.Context) (t trial, err error) {
	err = b.measure(ctx, []string{"--backends", "fake", "--slots", "1"}, nil, func(p *pool) error {
		doomed, err := b.startLate(ctx, p)
		if err != nil {
			return err
		}
		if err := p.fillSlow(ctx, "held"); err != nil {
			doomed.stop()
			return err
		}
		err = p.untilRunning(ctx, "held")
		_ = doomed.cmd.Process.Kill()
		killed := time.Now()
		_ = doomed.cmd.Wait()
		if err != nil {
			return err
		}
		other, err := b.startLate(ctx, p)
		if err != nil {
			return err
		}
		defer other.stop()
		if _, err := p.drain(ctx, "held", heldJobs); err != nil {
			return err
		}
		t = trial{
			Name: "SIGKILL of a worker, until its last job had its result", Unit: "s", Value: time.Since(killed).Seconds(),
			Detail: fmt.Sprintf("%d jobs of %s, a lease of %s", heldJobs, slowly, job.Lease),
		}
		return nil
	})
	return t, err
}

// slowly is how long a job runs that is to be found running.
const slowly = time.Second

func (p *pool) fillSlow(ctx context.Context, batch string) error {
	for range heldJobs {
		one := waiting
		one.Code = fmt.Sprintf(`{"fake": {"sleep": %q}}`, slowly)
		one.ID, one.Batch, one.Tenant = job.NewID(), batch, tenant(0)
		if err := one.Prepare(time.Now()); err != nil {
			return err
		}
		if _, err := p.queue.Submit(ctx, &one, queue.SubmitOptions{Park: true}); err != nil {
			return err
		}
	}
	return nil
}

// untilRunning waits until all jobs of the batch run.
func (p *pool) untilRunning(ctx context.Context, batch string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	db, err := store.Open(ctx, store.Config{URL: p.postgresURL, Log: zerolog.Nop(), MaxConns: 2})
	if err != nil {
		return err
	}
	defer db.Close()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if s, err := db.Batch(ctx, tenant(0), batch); err == nil && s.States[job.StateRunning] == heldJobs {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait until %d jobs run: %w", heldJobs, context.Cause(ctx))
		}
	}
}

// loseLeader kills the server that leads the queue's stream, and reports when
// a job that was submitted after that was stored.
func (b *bencher) loseLeader(ctx context.Context) (t trial, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	c, err := startCluster(ctx, 3)
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	nc, err := queue.Connect(ctx, strings.Join(c.urls, ","), "bench", zerolog.Nop())
	if err != nil {
		return t, err
	}
	defer nc.Close()
	q, err := openWhole(ctx, func() (*queue.Queue, error) { return queue.Open(ctx, nc, queue.Config{}) })
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, q.Close()) }()
	before, err := submitted(ctx, q)
	if err != nil {
		return t, err
	}
	killed, err := c.killLeader(ctx, "JOBS")
	if err != nil {
		return t, err
	}
	if _, err := submitted(ctx, q); err != nil {
		return t, err
	}
	return trial{
		Name: "SIGKILL of the NATS server that leads JOBS, of three, until a submission was stored", Unit: "s",
		Value: time.Since(killed).Seconds(), Detail: fmt.Sprintf("%.1f ms before", ms(before)),
	}, nil
}

// openWhole tries until the cluster has a leader.
func openWhole(ctx context.Context, open func() (*queue.Queue, error)) (*queue.Queue, error) {
	for {
		q, err := open()
		if err == nil {
			return q, nil
		}
		select {
		case <-time.After(lookEvery):
		case <-ctx.Done():
			return nil, errors.Join(err, context.Cause(ctx))
		}
	}
}

// submitted submits one job and returns how long that took.
func submitted(ctx context.Context, q *queue.Queue) (time.Duration, error) {
	one := waiting
	one.ID = job.NewID()
	if err := one.Prepare(time.Now()); err != nil {
		return 0, err
	}
	began := time.Now()
	_, err := q.Submit(ctx, &one, queue.SubmitOptions{Park: true})
	return time.Since(began), err
}
