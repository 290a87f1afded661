package main

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"airlock/job"
	"airlock/queue"
	"airlock/store"
	"airlock/worker"
)

const (
	// advertiseEvery is a third of the presence's life, so that two may be
	// lost.
	advertiseEvery = 10 * time.Second
	// advertiseAgain is sooner, for a request that an election swallowed took
	// half of that life already.
	advertiseAgain = time.Second
	// leadEvery is how often a worker that does not lead asks to.
	leadEvery = 5 * time.Second
	// lastWords bounds what is still told when the worker ends.
	lastWords = 5 * time.Second
)

// serve works until a signal, drains, and returns when everything has ended.
// ready is called once jobs are being claimed; its error ends the worker.
func (p *pool) serve(ctx context.Context, signals <-chan os.Signal, ready func(context.Context) error) error {
	// duties outlive the claiming: heartbeats and announcements end last.
	duties, endDuties := context.WithCancel(ctx)
	defer endDuties()
	group, dutyCtx := errgroup.WithContext(duties)
	p.start(dutyCtx, group)

	claiming, stopClaiming := context.WithCancel(dutyCtx)
	defer stopClaiming()
	claimed := make(chan error, 1)
	go func() { claimed <- p.consume(claiming, dutyCtx) }()
	readied := make(chan error, 1)
	go func() { readied <- ready(claiming) }()

	err := p.untilSignal(dutyCtx, signals, readied, claimed)
	stopClaiming()
	if err == nil {
		err = p.drain(signals, claimed)
	}
	endDuties()
	if waited := group.Wait(); err == nil && !errors.Is(waited, context.Canceled) {
		err = waited
	}
	return err
}

// untilSignal waits for a reason to stop. nil means an orderly one.
func (p *pool) untilSignal(ctx context.Context, signals <-chan os.Signal, readied, claimed <-chan error) error {
	for {
		select {
		case s := <-signals:
			p.log.Info().Stringer("signal", s).Msg("draining")
			return nil
		case err := <-readied:
			if err != nil {
				return err
			}
			readied = nil
		case err := <-claimed:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// drain waits for the running jobs; after the grace it hands them back, and
// on a second signal it leaves.
func (p *pool) drain(signals <-chan os.Signal, claimed <-chan error) error {
	ctx, cancel := context.WithTimeout(context.Background(), lastWords)
	defer cancel()
	p.draining.Store(true)
	if err := p.queue.Advertise(ctx, p.presence()); err != nil {
		p.log.Warn().Err(err).Msg("draining not advertised")
	}
	grace := time.After(p.cfg.DrainGrace)
	for {
		select {
		case <-claimed:
			return p.queue.Withdraw(ctx, p.id)
		case <-grace:
			p.log.Warn().Int("held", p.worker.Running()).Msg("grace is over: handing jobs back")
			p.worker.HandBack()
		case <-signals:
			return errLeft
		}
	}
}

// start begins the duties beside claiming. Each runs until ctx ends.
func (p *pool) start(ctx context.Context, group *errgroup.Group) {
	group.Go(func() error { p.worker.Heartbeat(ctx); return nil })
	group.Go(func() error { return p.serveMetrics(ctx) })
	group.Go(func() error { p.prober.Run(ctx); return nil })
	group.Go(func() error { p.advertise(ctx); return nil })
	group.Go(func() error { p.lead(ctx); return nil })
	group.Go(func() error { p.followPolicy(ctx); return nil })
	group.Go(func() error { return ended(ctx, p.catalogue.Run(ctx)) })
	group.Go(func() error { return ended(ctx, p.queue.Record(ctx, p.store.RecordQueued)) })
	group.Go(func() error { return ended(ctx, p.queue.Answer(ctx, p.verbs())) })
	group.Go(func() error { return ended(ctx, p.serveDecisions(ctx)) })
	group.Go(func() error {
		return ended(ctx, p.queue.Cancels(ctx, func(string, queue.CancelTarget) {
			p.worker.Cancel(func(j *job.Job) bool { return p.queue.Cancelled(j.Tenant, j) })
		}))
	})
}

// ended passes on the error of a duty that stopped before its time.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (p *pool) consume(claiming, handling context.Context) error {
	return p.queue.Consume(claiming, queue.ConsumerConfig{
		Offers:         p.offers,
		Slots:          p.cfg.Slots,
		Handler:        p.worker.Handle,
		HandlerContext: handling,
		Malformed: func(_ context.Context, subject string, body []byte, err error) {
			p.log.Error().Err(err).Str("subject", job.Printable(subject, 200)).Int("bytes", len(body)).
				Msg("message is no job; it was removed")
		},
	})
}

func (p *pool) advertise(ctx context.Context) {
	tick := time.NewTicker(advertiseEvery)
	defer tick.Stop()
	for {
		here := p.presence()
		tick.Reset(advertiseEvery)
		if err := p.queue.Advertise(ctx, here); err != nil && ctx.Err() == nil {
			p.log.Warn().Err(err).Msg("presence not advertised")
			tick.Reset(advertiseAgain)
		}
		if err := p.store.WorkerSeen(ctx, record(here)); err != nil && ctx.Err() == nil {
			p.log.Warn().Err(err).Msg("presence not recorded")
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-p.changed:
		}
	}
}

func record(here queue.Presence) store.WorkerRecord {
	return store.WorkerRecord{
		ID: here.ID, Host: here.Host, Version: here.Version, Started: here.Started,
		Slots: here.Slots, Draining: here.Draining, Labels: here.Labels, Offers: here.Offers,
	}
}

// lead runs the reconciler while this worker is the one that leads.
func (p *pool) lead(ctx context.Context) {
	reconciler := &worker.Reconciler{Backlog: p.store, Publisher: p.queue, Results: p.queue,
		Fleet: p.queue, PlacementDeadline: p.cfg.PlacementDeadline, Retain: time.Duration(p.cfg.Retain), Decisions: &p.decisions, Log: p.log}
	for ctx.Err() == nil {
		p.term(ctx, reconciler)
		select {
		case <-ctx.Done():
		case <-time.After(leadEvery):
		}
	}
}

// term is one time of leading; it returns at once if another worker leads.
func (p *pool) term(ctx context.Context, reconciler *worker.Reconciler) {
	lead, err := p.store.Lead(ctx)
	if err != nil {
		if ctx.Err() == nil {
			p.log.Warn().Err(err).Msg("leadership not asked for")
		}
		return
	}
	if lead == nil {
		return
	}
	defer lead.Release()
	p.leading.Store(true)
	defer p.leading.Store(false)
	p.log.Info().Msg("leading: reconciling the backlog")
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	over := make(chan struct{})
	go func() { defer close(over); reconciler.Run(ctx) }()
	for {
		select {
		case <-over:
			return
		case <-time.After(leadEvery):
			if err := lead.Check(ctx); err != nil {
				p.log.Warn().Err(err).Msg("leadership lost")
				stop()
				<-over
				return
			}
		}
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
