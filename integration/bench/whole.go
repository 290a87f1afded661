package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"airlock/job"
)

var adding = []job.Grant{{Namespace: "math", Name: "add"}}

// The jobs that figures are taken of. A guest loads asyncio only for code that
// names it, so a call is measured with and without.
var (
	plain   = job.Job{Code: "print(1)"}
	called  = job.Job{Code: "return (await add(a=1, b=2))['sum']", Tools: adding}
	async   = job.Job{Code: "import asyncio\n(got,) = await asyncio.gather(add(a=1, b=2))\nreturn got['sum']", Tools: adding}
	bigger  = job.Job{Code: "print(1)", Limits: job.Limits{Memory: 512 * job.MiB}}
	nothing = job.Job{Code: "1", Requires: job.Requirement{Isolation: job.IsolationNone, Backends: []string{"fake"}}}
	// timed calls a tool a hundred times and says how many milliseconds each
	// took, as the guest sees it.
	timed = job.Job{
		Code: "from time import perf_counter as now\ntook = []\nfor i in range(100):\n    began = now()\n    await add(a=i, b=1)\n" +
			"    took.append((now() - began) * 1000)\nreturn took",
		Tools: adding,
	}
)

// controlPlane measures everything but a sandbox, idle and sustained.
func (b *bencher) controlPlane(ctx context.Context) error {
	return b.measure(ctx, []string{"--backends", "fake", "--slots", "64"}, []series{
		{job: nothing, count: b.n(200), inFlight: 1},
		{id: "control/idle", name: "no sandbox (fake), one after the other", job: nothing, lasting: b.long(5 * time.Second), inFlight: 1},
		{id: "control/64slots", name: "no sandbox (fake), 64 slots, 128 in flight", job: nothing, lasting: b.long(15 * time.Second), inFlight: 128},
	})
}

// whole measures the whole path with real guests of one backend: with guests
// that are started ahead, as a worker does by default, and without.
func (b *bencher) whole(ctx context.Context, x backend) error {
	id := func(what string) string { return x.name + "/" + what }
	name := func(what string) string { return x.name + ", " + what }
	pause := fmt.Sprintf("%d ms between jobs", x.gap.Milliseconds())
	warm := series{job: plain, count: x.warm, inFlight: 1}
	spaced := b.n(x.spaced)
	err := b.measure(ctx, []string{"--backends", x.name, "--slots", "2"}, []series{
		warm,
		{id: id("print/idle"), name: name("print, one after the other"), job: plain, lasting: b.long(5 * time.Second), inFlight: 1},
		{id: id("print/spaced"), name: name("print, " + pause), job: plain, count: spaced, inFlight: 1, gap: x.gap},
		{id: id("tool/idle"), name: name("a tool call, one after the other"), job: called, lasting: b.long(5 * time.Second), inFlight: 1},
		{id: id("asyncio/idle"), name: name("asyncio and a tool call, one after the other"), job: async, lasting: b.long(5 * time.Second), inFlight: 1},
		{id: id("asyncio/spaced"), whole: true, name: name("asyncio and a tool call, " + pause), job: async, count: spaced, inFlight: 1, gap: x.gap},
		{id: id("print/2slots"), name: name("print, 2 slots, 16 in flight"), job: plain, lasting: b.long(x.lasting), inFlight: 16},
		{id: id("asyncio/2slots"), name: name("asyncio and a tool call, 2 slots, 16 in flight"), job: async, lasting: b.long(x.lasting), inFlight: 16},
		{job: bigger, count: x.warm, inFlight: 1, whole: true},
		{id: id("class/spaced"), whole: true, name: name("print, memory 512 MiB, " + pause), job: bigger, count: spaced, inFlight: 1, gap: x.gap},
	}, b.roundTrips(ctx, x)...)
	if err == nil {
		err = b.firstBytes(ctx, x)
	}
	if err != nil {
		return err
	}
	return b.measure(ctx, []string{"--backends", x.name, "--slots", "2", "--parked", "0"}, []series{
		warm,
		{id: id("cold/spaced"), whole: true, name: name("print, no guest ahead, " + pause), job: plain, count: spaced / 2, inFlight: 1, gap: x.gap},
		{id: id("cold/2slots"), whole: true, name: name("print, no guest ahead, 2 slots, 16 in flight"), job: plain, lasting: b.long(x.lasting / 2), inFlight: 16},
	})
}

// roundTrips measures single tool calls from inside of guests.
func (b *bencher) roundTrips(ctx context.Context, x backend) []func(*pool) error {
	s := series{id: x.name + "/call", name: x.name + ", one tool call, guest to provider and back", job: timed, count: b.n(40), inFlight: 1}
	if !b.wants(s.id) {
		return nil
	}
	calls := newFigure(s)
	s.each = func(r *job.Result) error {
		var took []float64
		if err := json.Unmarshal(r.Value, &took); err != nil {
			return fmt.Errorf("read what the calls took: %w", err)
		}
		for _, t := range took {
			calls.add(time.Duration(t*float64(time.Millisecond)), 0, 0)
		}
		return nil
	}
	return []func(*pool) error{func(p *pool) error {
		if _, err := p.run(ctx, s); err != nil {
			return err
		}
		b.report.add(calls.row().within())
		return nil
	}}
}

// within marks a row of something within jobs: their rate says nothing of it.
func (r row) within() row {
	r.Rate = 0
	for i := range r.Samples {
		r.Samples[i].Rate = 0
	}
	return r
}

// measure takes figures from one pool, all that -only names but those of
// warm-ups, and then does what else there is to do with it.
func (b *bencher) measure(ctx context.Context, args []string, all []series, more ...func(*pool) error) error {
	if !b.wantsAny(all, more) {
		return nil
	}
	p, err := startPool(ctx, b.bin, args...)
	if err != nil {
		return fmt.Errorf("worker %s: %w", strings.Join(args, " "), err)
	}
	defer p.stop()
	for _, s := range all {
		if s.id != "" && !b.takes(s) || s.whole && b.quick {
			continue
		}
		f, err := p.run(ctx, s)
		if err != nil {
			return err
		}
		if s.id != "" {
			b.report.add(f.row())
		}
	}
	for _, do := range more {
		if err := do(p); err != nil {
			return err
		}
	}
	return nil
}

func (b *bencher) wantsAny(all []series, more []func(*pool) error) bool {
	for _, s := range all {
		if b.takes(s) {
			return true
		}
	}
	return len(more) > 0
}
