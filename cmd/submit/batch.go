package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"airlock/job"
	"airlock/job/jobfile"
	"airlock/queue"
)

// submitters is how many jobs are being published at a time: a publish is a
// round trip, and so many keep the server busy.
const submitters = 32

// batch is one run over a file of jobs. Memory is bounded by the window and,
// with some 30 bytes a line, by what is remembered of contents and of results
// that are there already.
type batch struct {
	s       *session
	talk    *talk
	out     *resultFile
	parser  jobfile.Parser
	tally   *tally
	waiting *tracker
	lanes   lanes
	park    bool
	// files is where what comes back is written; unwritten counts what was not.
	files     *artifactDir
	unwritten atomic.Int64
	// window holds a token for each job that is submitted and not ended.
	window chan struct{}
}

// task is a line on its way to the queue.
type task struct {
	job *job.Job
	ref ref
}

func newBatch(s *session, a *app, out *resultFile, p jobfile.Parser) *batch {
	return &batch{s: s, talk: a.talk, out: out, parser: p, tally: newTally(), waiting: newTracker()}
}

// run submits every line and returns when each has its result or was refused,
// or with the first error that makes going on pointless.
func (b *batch) run(ctx context.Context, input io.Reader) error {
	g, ctx := errgroup.WithContext(ctx)
	collecting, done := context.WithCancel(ctx)
	todo := make(chan task, submitters)
	g.Go(func() error { return b.collect(collecting) })
	g.Go(func() error { return b.recheck(collecting) })
	for range submitters {
		g.Go(func() error { return b.submitAll(ctx, todo) })
	}
	g.Go(func() error {
		defer done()
		err := b.feed(ctx, input, todo)
		close(todo)
		if err != nil {
			return err
		}
		return b.drain(ctx)
	})
	return g.Wait()
}

// feed reads the lines and hands on those that have to run.
func (b *batch) feed(ctx context.Context, input io.Reader, todo chan<- task) error {
	lines := jobfile.NewReader(input)
	for ctx.Err() == nil {
		l, err := lines.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read jobs: %w", err)
		}
		b.tally.read()
		j, r, err := parse(&b.parser, l)
		if err != nil {
			b.refuse(l.Number, err)
			continue
		}
		if status, ok := b.out.has(r); ok {
			b.tally.earlier(status)
			continue
		}
		if err := b.hand(ctx, task{j, r}, todo); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// hand waits for room in the window and for a submitter.
func (b *batch) hand(ctx context.Context, t task, todo chan<- task) error {
	select {
	case b.window <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case todo <- t:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// drain returns when the window is empty: it fills it up.
func (b *batch) drain(ctx context.Context) error {
	for range cap(b.window) {
		select {
		case b.window <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (b *batch) submitAll(ctx context.Context, todo <-chan task) error {
	for t := range todo {
		if err := b.submit(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

func (b *batch) submit(ctx context.Context, t task) error {
	b.waiting.expect(t.job.ID, t.ref)
	receipt, err := b.place(ctx, t.job)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, queue.ErrClosed):
		return err
	case err != nil:
		b.waiting.forget(t.job.ID)
		b.refuse(t.ref.line, err)
		<-b.window
		return nil
	case receipt.Known:
		return b.resume(ctx, t, receipt.Job)
	}
	return nil
}

// place submits, and gives the workers of a lane that took jobs before the
// time to come back from a restart.
func (b *batch) place(ctx context.Context, j *job.Job) (queue.Receipt, error) {
	var unplaceable *queue.UnplaceableError
	for first := time.Now(); ; {
		receipt, err := b.s.submit(ctx, j, b.park)
		if err == nil {
			b.lanes.took(receipt.Lane)
			return receipt, nil
		}
		if !errors.As(err, &unplaceable) || !b.lanes.worthWaiting(unplaceable.Lane, first) {
			return receipt, err
		}
		// A refusal that saw no worker at all says nothing of this job: while
		// a cluster elects, our view of the workers may be behind.
		if unplaceable.Workers > 0 && b.served(ctx, unplaceable.Requirement) {
			return receipt, err
		}
		b.talk.seldom("unplaceable", "waiting: the workers of lane %s have gone", unplaceable.Lane)
		pause(ctx, jitter(2*time.Second))
	}
}

// served reports whether a live worker takes jobs of the requirement: then it
// is this job, with its limits, that no worker wants.
func (b *batch) served(ctx context.Context, want job.Requirement) bool {
	workers, err := b.s.Workers(ctx)
	return err == nil && slices.ContainsFunc(workers, func(w queue.Presence) bool {
		return !w.Draining && slices.ContainsFunc(w.Offers, func(o job.Offer) bool { return want.Unmet(o) == "" })
	})
}

// resume is for a line whose job an earlier run submitted.
func (b *batch) resume(ctx context.Context, t task, known job.ID) error {
	if result := b.waiting.rename(t.job.ID, known, t.ref); result != nil {
		return b.settle(ctx, result, t.ref)
	}
	return b.fetch(ctx, known)
}

// fetch asks for a result that was perhaps announced before we listened.
func (b *batch) fetch(ctx context.Context, id job.ID) error {
	result, err := b.s.stored(ctx, id)
	if err != nil {
		if ctx.Err() == nil {
			b.talk.seldom("fetch", "waiting: earlier results are asked for: %v", err)
		}
		b.waiting.poll(id)
		return nil
	}
	if result == nil {
		return nil
	}
	return b.deliver(ctx, result)
}

// refuse accounts for a line that does not run.
func (b *batch) refuse(number int, err error) {
	b.talk.fault("%s", b.tally.refused(number, err))
}
