package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"os/exec"
	"slices"
	"strings"
	"time"

	"airlock/job"
)

// computed is how the trial of CPU-bound Python is called.
const computed = "python/wasm"

// program is a small one that only computes.
type program struct{ name, code string }

// programs take about 0.2 s natively, much longer than an interpreter's start.
var programs = []program{
	{"loops", "n = 0\nfor i in range(3_000_000):\n    if i % 3 == 0: n += i * i & 255\nassert n > 0"},
	{"floats", "x = 0.0\nfor i in range(1, 2_500_000): x += 1.0 / (i * i)\nassert 1.6 < x < 1.7"},
	{"calls", "def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)\nassert fib(27) == 196418"},
	{"dicts and text", "d = {}\nfor i in range(400_000):\n    k = 'key%d' % (i % 5000)\n    d[k] = d.get(k, 0) + len(k.upper())\nassert len(d) == 5000"},
	{"json", "import json\nx = [{'id': i, 'name': 'n%d' % i, 'tags': ['a', 'b'], 'f': i / 7} for i in range(2000)]\nfor _ in range(25): y = json.loads(json.dumps(x))\nassert x == y"},
	{"sorting", "import random\nr = random.Random(1)\nx = [r.random() for _ in range(250_000)]\nx = sorted(sorted(x), key=lambda v: -v)\nassert x[0] > x[-1]"},
	{"patterns", "import re\ns = 'the quick brown fox 12345 jumps ' * 4000\nfor _ in range(6): n = len(re.findall(r'[a-z]+|\\d+', s))\nassert n == 24000"},
}

// rounds is how often each program runs; what took least is what it takes.
const rounds = 5

// compute compares programs that only compute, in guests of wasm and in the
// host's own Python, by processor time and without the start of either. They
// take turns, so that what else the machine does falls on both.
func (b *bencher) compute(ctx context.Context) error {
	if !b.wants(computed) {
		return nil
	}
	if !slices.ContainsFunc(b.backends, func(x backend) bool { return x.name == "wasm" }) {
		return nil // noted when the backends were sorted
	}
	if why, absent := isAbsent(havePython(ctx)); absent {
		b.report.absent(computed, why)
		return nil
	}
	return b.measure(ctx, []string{"--backends", "wasm", "--slots", "1", "--parked", "0"}, nil, func(p *pool) error {
		got, err := b.ratios(ctx, p)
		if err == nil {
			b.report.Trials = append(b.report.Trials, got)
		}
		return err
	})
}

// ratios reports the program that loses most, and the others beside it.
func (b *bencher) ratios(ctx context.Context, p *pool) (trial, error) {
	all := append([]program{{"nothing", "pass"}}, programs...)
	ours, native := make([]time.Duration, len(all)), make([]time.Duration, len(all))
	for range max(1, int(rounds*math.Min(1, b.scale))) {
		for i, program := range all {
			host, err := natively(ctx, program.code)
			if err != nil {
				return trial{}, err
			}
			guest, err := inGuest(ctx, p, program.code)
			if err != nil {
				return trial{}, fmt.Errorf("%s: %w", program.name, err)
			}
			native[i], ours[i] = least(native[i], host), least(ours[i], guest)
		}
	}
	return compared(all, ours, native)
}

func compared(all []program, ours, native []time.Duration) (trial, error) {
	worst := trial{ID: computed, Name: "CPU-bound Python, wasm over the host's, the program that loses most", Unit: "times"}
	var details []string
	for i, program := range all[1:] {
		host, guest := native[i+1]-native[0], ours[i+1]-ours[0]
		if host <= 0 || guest <= 0 {
			return trial{}, fmt.Errorf("%s took no longer than nothing does: the machine is too busy to measure, run it again", program.name)
		}
		ratio := float64(guest) / float64(host)
		worst.Value = max(worst.Value, ratio)
		details = append(details, program.name+" "+short(ratio))
	}
	worst.Detail = strings.Join(details, ", ")
	return worst, nil
}

// least is the smaller one, where 0 is none yet.
func least(a, b time.Duration) time.Duration { return min(cmp.Or(a, b), b) }

// natively is the processor time of the code in a Python of the host.
func natively(ctx context.Context, code string) (time.Duration, error) {
	cmd := exec.CommandContext(ctx, python, "-I", "-S", "-c", "def main():\n    "+strings.ReplaceAll(code, "\n", "\n    ")+"\nmain()")
	if out, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("run a program natively: %w: %s", err, out)
	}
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
}

// inGuest is that of a guest, as its result says.
func inGuest(ctx context.Context, p *pool, code string) (time.Duration, error) {
	var took time.Duration
	_, err := p.run(ctx, series{name: "computing", job: job.Job{Code: "def main():\n    " + strings.ReplaceAll(code, "\n", "\n    ") + "\nmain()"}, count: 1, inFlight: 1,
		each: func(r *job.Result) error {
			if took = r.Usage.CPU.Std(); r.Status != job.StatusOK || took == 0 {
				return fmt.Errorf("got %s and %s of processor time, want a guest that succeeded: %v", r.Status, took, r.Error)
			}
			return nil
		}})
	return took, err
}
