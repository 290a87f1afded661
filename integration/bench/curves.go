package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"airlock/job"
)

// scaling measures how much more slots bring.
func (b *bencher) scaling(ctx context.Context) error {
	for _, x := range b.curved() {
		for _, slots := range b.slots() {
			all := []series{{name: "warm-up", job: plain, count: x.warm, inFlight: slots}}
			for _, w := range workloads {
				all = append(all, series{
					id: fmt.Sprintf("scaling/%s/%s/%d", x.name, w.id, slots), name: x.name + ", " + w.title, job: w.job,
					lasting: b.long(x.lasting * 2 / 5), inFlight: 4*slots + 8, size: slots,
				})
			}
			if err := b.measure(ctx, []string{"--backends", x.name, "--slots", strconv.Itoa(slots)}, all); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *bencher) slots() []int {
	if b.quick {
		return []int{1, 4, 16}
	}
	return []int{1, 2, 4, 8, 16}
}

// workloads are what curves are taken of.
var workloads = []struct {
	id, title string
	job       job.Job
}{
	{"print", "print", plain},
	{"asyncio", "asyncio and a tool call", async},
}

// sustainedFor is long enough to see what grows and what fills up, ends the
// part at each end that is compared.
const (
	sustainedFor = time.Minute
	ends         = 6
)

// sustained compares the end of a long run with its beginning.
func (b *bencher) sustained(ctx context.Context) error {
	x, err := b.fastest()
	if err != nil {
		b.report.absent("sustained", err.Error())
		return nil
	}
	lasting := b.long(sustainedFor)
	for _, w := range workloads {
		s := series{
			id: "sustained/" + x.name + "/" + w.id, name: fmt.Sprintf("%s, %s, 2 slots, 16 in flight, for %s", x.name, w.title, lasting),
			job: w.job, lasting: lasting, inFlight: 16,
		}
		s.whole = w.id != "print"
		if !b.takes(s) {
			continue
		}
		if err := b.drift(ctx, x, s); err != nil {
			return err
		}
	}
	return nil
}

// drift takes one long series.
func (b *bencher) drift(ctx context.Context, x backend, s series) error {
	return b.measure(ctx, []string{"--backends", x.name, "--slots", "2"}, nil, func(p *pool) error {
		if _, err := p.run(ctx, series{name: "warm-up", job: s.job, count: x.warm, inFlight: 2}); err != nil {
			return err
		}
		f, err := p.run(ctx, s)
		if err != nil {
			return err
		}
		r := f.row()
		r.First, r.Last = f.rateIn(0, s.lasting/ends), f.rateIn(s.lasting-s.lasting/ends, s.lasting)
		b.report.add(r)
		return nil
	})
}

// growth measures what more output and more tool calls cost.
func (b *bencher) growth(ctx context.Context) error {
	x, err := b.fastest()
	if err != nil {
		b.report.absent("growth", err.Error())
		return nil
	}
	all := []series{{job: plain, count: x.warm, inFlight: 1}}
	for _, size := range []int{1, 1 << 10, 64 << 10, 1 << 20, 4 << 20} {
		j := job.Job{Code: fmt.Sprintf("print('x' * %d, end='')", size), Limits: job.Limits{Output: job.Size(size)}}
		all = append(all, series{id: fmt.Sprintf("output/%d", size), name: x.name + ", bytes of output", job: j, count: b.n(100), inFlight: 1, size: size})
	}
	for _, n := range []int{0, 1, 4, 16, 64} {
		lines := strings.Repeat("await add(a=1, b=2)\n", n)
		j := job.Job{Code: "import time\n" + lines, Tools: adding}
		all = append(all, series{id: fmt.Sprintf("calls/%d", n), name: x.name + ", tool calls", job: j, count: b.n(100), inFlight: 1, size: n})
	}
	return b.measure(ctx, []string{"--backends", x.name, "--slots", "2"}, all)
}
