package main

import (
	"context"
	"time"

	"airlock/job"
)

// bencher measures, each part with a pool of its own.
type bencher struct {
	bin string
	// n scales a count of jobs.
	n func(int) int
}

// series is one figure to take: so many jobs of which that many are in flight
// at once, with a pause before each.
type series struct {
	id, name, target string
	job              job.Job
	count, inFlight  int
	gap              time.Duration
}

var (
	plain   = job.Job{Code: "print(1)"}
	calls   = job.Job{Code: "return (await add(a=1, b=2))['sum']", Tools: []job.Grant{{Namespace: "math", Name: "add"}}}
	bigger  = job.Job{Code: "print(1)", Limits: job.Limits{Memory: 512 * job.MiB}}
	nothing = job.Job{Code: "1", Requires: job.Requirement{Isolation: job.IsolationNone, Backends: []string{"fake"}}}
)

// controlPlane measures everything but a sandbox, idle and sustained.
func (b *bencher) controlPlane(ctx context.Context) ([]*figure, error) {
	return b.measure(ctx, []string{"--backends", "fake", "--slots", "64"}, []series{
		{name: "warm-up", job: nothing, count: b.n(200), inFlight: 1},
		{id: "control_idle", name: "control plane, fake backend, idle", job: nothing, count: b.n(1000), inFlight: 1, target: "p50 ≤ 3 ms"},
		{id: "control_sustained", name: "control plane, fake backend, 64 slots", job: nothing, count: b.n(20_000), inFlight: 128, target: "≥ 2000 jobs/s"},
	})
}

// bubblewrap measures real guests.
func (b *bencher) bubblewrap(ctx context.Context) ([]*figure, error) {
	bare, err := bareBubblewrap(ctx, b.n(200))
	if err != nil {
		return nil, err
	}
	const gap = 50 * time.Millisecond
	whole, err := b.measure(ctx, []string{"--backends", "bubblewrap", "--slots", "2"}, []series{
		{name: "warm-up", job: plain, count: b.n(20), inFlight: 1},
		{id: "bubblewrap_idle", name: "bubblewrap, one after the other", job: plain, count: b.n(200), inFlight: 1, target: "p50 ≤ bare + 5 ms"},
		{id: "bubblewrap_spaced", name: "bubblewrap, 50 ms between jobs", job: plain, count: b.n(100), inFlight: 1, gap: gap},
		{id: "bubblewrap_sustained", name: "bubblewrap, 2 slots", job: plain, count: b.n(1000), inFlight: 16},
		{id: "bubblewrap_called", name: "bubblewrap, one tool call each, 2 slots", job: calls, count: b.n(1000), inFlight: 16},
		{name: "warm-up", job: bigger, count: b.n(20), inFlight: 1},
		{id: "bubblewrap_class", name: "bubblewrap, memory=512MiB, 50 ms between", job: bigger, count: b.n(100), inFlight: 1, gap: gap, target: "as with 256MiB"},
	})
	return append([]*figure{bare}, whole...), err
}

// docker measures containers: started for each job, and from a pool.
func (b *bencher) docker(ctx context.Context) ([]*figure, error) {
	if err := dockerThere(ctx); err != nil {
		return nil, err
	}
	bare, err := bareDocker(ctx, b.n(30))
	if err != nil {
		return nil, err
	}
	// Long enough for the next container to stand ready.
	const gap = 400 * time.Millisecond
	cold, err := b.measure(ctx, []string{"--backends", "docker", "--slots", "2", "--parked", "0"}, []series{
		{name: "warm-up", job: plain, count: 5, inFlight: 1},
		{id: "docker_cold", name: "docker cold, 400 ms between jobs", job: plain, count: b.n(50), inFlight: 1, gap: gap},
		{id: "docker_cold_sustained", name: "docker cold, 2 slots", job: plain, count: b.n(150), inFlight: 8},
	})
	if err != nil {
		return nil, err
	}
	pooled, err := b.measure(ctx, []string{"--backends", "docker", "--slots", "2"}, []series{
		{name: "warm-up", job: plain, count: 5, inFlight: 1},
		{id: "docker_pooled", name: "docker pooled, 400 ms between jobs", job: plain, count: b.n(100), inFlight: 1, gap: gap, target: "p50 ≤ 25 ms, start ≤ 3 ms"},
		{id: "docker_called", name: "docker pooled, one tool call each, 400 ms between", job: calls, count: b.n(100), inFlight: 1, gap: gap},
		{id: "docker_sustained", name: "docker pooled, 2 slots", job: plain, count: b.n(150), inFlight: 8},
		{name: "warm-up", job: bigger, count: 10, inFlight: 1},
		{id: "docker_class", name: "docker pooled, memory=512MiB, 400 ms between", job: bigger, count: b.n(100), inFlight: 1, gap: gap, target: "as with 256MiB"},
	})
	return append(append([]*figure{bare}, cold...), pooled...), err
}

// measure takes figures from one pool, all but those of warm-ups.
func (b *bencher) measure(ctx context.Context, args []string, all []series) ([]*figure, error) {
	p, err := startPool(ctx, b.bin, args...)
	if err != nil {
		return nil, err
	}
	defer p.stop()
	var figures []*figure
	for _, s := range all {
		f, err := p.run(ctx, s)
		if err != nil {
			return nil, err
		}
		if s.id != "" {
			figures = append(figures, f)
		}
	}
	return figures, nil
}
