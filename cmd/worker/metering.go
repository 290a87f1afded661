package main

import (
	"context"

	"airlock/backends"
	"airlock/metrics"
)

// metricsFlags say where metrics are.
type metricsFlags struct {
	ListenMetrics string `help:"Address to serve Prometheus' /metrics on, to whoever can reach it; port 0 takes a free one. By default there are none, but with --standalone at a free port of 127.0.0.1." placeholder:"HOST:PORT"`
}

// freeLoopback is where --standalone serves metrics.
const freeLoopback = "127.0.0.1:0"

// openMeter comes early: an address that is taken is told at once.
func (p *pool) openMeter(context.Context) (err error) {
	address := p.cfg.ListenMetrics
	if address == "" && p.cfg.Standalone {
		address = freeLoopback
	}
	if address == "" {
		return nil
	}
	if p.scrapes, err = metrics.Listen(address); err != nil {
		return err
	}
	p.meter = metrics.NewWorker(version(), p.meterState)
	p.log.Info().Str("url", p.scrapes.URL).Msg("serving metrics")
	return nil
}

// serveMetrics runs until ctx ends.
func (p *pool) serveMetrics(ctx context.Context) error {
	if p.meter == nil {
		return nil
	}
	return p.scrapes.Serve(ctx, p.meter.Handler())
}

// meterState is what is looked at when somebody scrapes, which is after join.
func (p *pool) meterState() metrics.WorkerState {
	s := metrics.WorkerState{
		Slots: p.cfg.Slots, Busy: min(p.worker.Running(), p.cfg.Slots), Draining: p.draining.Load(), Leading: p.leading.Load(),
		Offered: map[string]bool{}, Parked: map[string]int{}, Decisions: p.decisions.Counts(),
	}
	for _, n := range p.backends {
		s.Offered[n.Name] = false
		s.Parked[n.Name] = backends.Standing(n.Backend)
	}
	for _, box := range p.prober.Sandboxes().Load() {
		s.Offered[box.Name] = true
	}
	return s
}
