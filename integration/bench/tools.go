package main

import (
	"context"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"

	"airlock/job"
)

// The jobs that figures of many calls are taken of.
var (
	// crowd makes a thousand calls at once and says how many were answered
	// right, and how many milliseconds all took.
	crowd = job.Job{
		Code: "import asyncio\nfrom time import perf_counter as now\nbegan = now()\n" +
			"got = await asyncio.gather(*[add(a=i, b=1) for i in range(1000)])\ntook = (now() - began) * 1000\n" +
			"return [sum(r['sum'] == i + 1 for i, r in enumerate(got)), took]",
		Tools:  adding,
		Limits: job.Limits{ToolCalls: crowded, ToolTime: job.Duration(5 * time.Minute), Wall: job.Duration(2 * time.Minute), CPU: job.Duration(time.Minute)},
	}
	// flood has ten megabytes of answers come, one after the other.
	flood = job.Job{
		Code:  "text = 'x' * 1_000_000\nseen = 0\nfor _ in range(10):\n    seen += len(await echo(text=text))\nreturn seen",
		Tools: []job.Grant{{Namespace: "math", Name: "echo"}},
	}
)

const (
	crowded = 1000
	flooded = 10_000_000
)

// tools measures what many and large answers cost, on the backend that workers
// prefer.
func (b *bencher) tools(ctx context.Context) error {
	if len(b.backends) == 0 {
		return nil
	}
	x := b.backends[0]
	warm := series{job: called, count: x.warm, inFlight: 1}
	return b.measure(ctx, []string{"--backends", x.name, "--slots", "1"}, []series{warm}, append(append(b.floods(ctx, x), b.crowds(ctx, x)...), b.catalogue(ctx, x)...)...)
}

// crowds measures a guest's thousand calls at once. One that is lost fails it.
func (b *bencher) crowds(ctx context.Context, x backend) []func(*pool) error {
	s := series{id: "tools/crowd", name: x.name + ", 1,000 tool calls of one guest at once", job: crowd, count: b.n(20), inFlight: 1}
	if !b.wants(s.id) {
		return nil
	}
	all := newFigure(s)
	s.each = func(r *job.Result) error {
		var said [2]float64
		if err := json.Unmarshal(r.Value, &said); err != nil {
			return fmt.Errorf("read what the calls took: %w", err)
		}
		if said[0] != crowded {
			return fmt.Errorf("%v of %d calls were answered right", said[0], crowded)
		}
		all.add(time.Duration(said[1]*float64(time.Millisecond)), 0, 0)
		return nil
	}
	return []func(*pool) error{func(p *pool) error {
		if _, err := p.run(ctx, s); err != nil {
			return err
		}
		b.report.add(all.row().within())
		return nil
	}}
}

// floods comes first, since the most that a process held is of its whole life.
// It weighs a worker before ten megabytes of answers went through one
// guest, and at its fullest until after. NATS is in it, and the provider.
func (b *bencher) floods(ctx context.Context, x backend) []func(*pool) error {
	s := series{id: "tools/flood", name: x.name + ", 10 MB of answers through one guest", job: flood, count: 1, inFlight: 1}
	if !b.wants(s.id) {
		return nil
	}
	s.each = func(r *job.Result) error {
		if string(r.Value) != fmt.Sprint(flooded) {
			return fmt.Errorf("the guest saw %.40s bytes of answers, want %d", r.Value, flooded)
		}
		return nil
	}
	return []func(*pool) error{func(p *pool) error {
		before, ok := held(p.pid())
		if _, err := p.run(ctx, s); err != nil {
			return err
		}
		if most := peak(p.pid()); ok && most > 0 {
			b.report.Weights = append(b.report.Weights, weight{s.id, "worker with NATS and provider, more at its fullest, " + s.name, max(0, most-before.rss), "RSS"})
		}
		return nil
	}}
}
