// Command bench measures Airlock on this machine, everything in one run: the
// control plane alone, the whole path with each backend that works here, what
// such sandboxes take when they are started by hand for each job, and how cost
// grows. It prints the table of goals and the figures behind it, and writes
// them as JSON and in the format of Go's benchmarks. Machines are noisy:
// compare only the rows of one run, and none of a run on a busy machine.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// options are the flags.
type options struct {
	bin, json, parts, only, page, from string
	scale                              float64
	quick, million                     bool
}

// quickly is the scale of -quick.
const quickly = 0.2

func main() {
	if config := os.Getenv(nodeEnv); config != "" {
		if err := serveNode(config, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "bench: NATS:", err)
			os.Exit(2)
		}
		return
	}
	var o options
	flag.StringVar(&o.bin, "bin", "bin", "directory of the worker, submit and gateway binaries")
	flag.StringVar(&o.json, "json", "", "file for the figures; beside it goes one ending in .txt, for benchstat (default: named by the time, in bench/)")
	flag.StringVar(&o.parts, "parts", "", "what to measure, such as control,bubblewrap (default: all; -parts help lists them)")
	flag.StringVar(&o.only, "only", "", "measure only the rows whose ID this regular expression matches")
	flag.Float64Var(&o.scale, "scale", 1, "multiplies how long and from how many jobs each figure is taken")
	flag.BoolVar(&o.quick, "quick", false, "two minutes in place of twenty-five: a fifth of the scale, fewer rows, and curves of the fastest backend only")
	flag.BoolVar(&o.million, "million", false, "let the queue grow to 1,000,000 jobs too, which takes five minutes more")
	flag.StringVar(&o.page, "write", "", "page whose generated part to make anew, such as PERFORMANCE.md")
	flag.StringVar(&o.from, "from", "", "measure nothing, and read the figures of this JSON file")
	flag.Parse()
	// What was started must end too.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	if o.from != "" {
		r, err := readReport(o.from)
		if err != nil {
			return err
		}
		r.judge() // there may be more goals by now
		fmt.Println(r.text())
		return r.writePage(o.page)
	}
	b, err := newBencher(ctx, o)
	if err != nil {
		return err
	}
	failed := b.measureAll(ctx)
	b.report.judge()
	fmt.Println(b.report.text())
	if failed != nil && o.page != "" {
		return failed // a page is made of whole runs
	}
	path := cmp.Or(o.json, filepath.Join("bench", b.report.Machine.Time.Format("2006-01-02T150405Z")+".json"))
	fmt.Fprintln(os.Stderr, "bench: the figures go to", path, "and", benchPath(path))
	return errors.Join(failed, b.report.writeJSON(path), b.report.writePage(o.page))
}

// bencher measures, part by part.
type bencher struct {
	options
	chosen []string
	filter *regexp.Regexp
	// backends are those that work here, the fastest first.
	backends []backend
	report   *report
}

func newBencher(ctx context.Context, o options) (*bencher, error) {
	if o.quick {
		o.scale *= quickly
	}
	filter, err := regexp.Compile(o.only)
	if err != nil {
		return nil, fmt.Errorf("-only: %w", err)
	}
	b := &bencher{options: o, filter: filter, report: &report{Quick: o.quick, Scale: o.scale, Only: o.only, Parts: o.parts}}
	listed, err := listBackends(ctx, o.bin)
	if err != nil {
		return nil, err
	}
	b.report.Machine = thisMachine(ctx, o.bin, listed)
	b.sort(listed)
	return b, b.choose()
}

// choose reads -parts.
func (b *bencher) choose() error {
	var known []string
	for _, p := range b.all() {
		known = append(known, p.name)
	}
	if b.parts == "" {
		b.chosen = known
		return nil
	}
	b.chosen = strings.Split(b.parts, ",")
	for _, name := range b.chosen {
		if !slices.Contains(known, name) {
			return fmt.Errorf("-parts: %q is unknown, want some of %s", name, strings.Join(known, ","))
		}
	}
	return nil
}

// wants reports whether -only lets a row be measured.
func (b *bencher) wants(id string) bool { return b.filter.MatchString(id) }

// takes reports whether a series is a row that is to be measured.
func (b *bencher) takes(s series) bool { return s.id != "" && b.wants(s.id) && !(s.whole && b.quick) }

// fewest is how many jobs a figure is taken from at least.
const fewest = 20

// n scales a count of jobs.
func (b *bencher) n(count int) int { return max(fewest, int(float64(count)*b.scale)) }

// long scales a duration.
func (b *bencher) long(d time.Duration) time.Duration {
	return max(time.Second, time.Duration(float64(d)*b.scale))
}

// part is what -parts names.
type part struct {
	name string
	run  func(context.Context) error
}

// all lists the parts in the order of their rows.
func (b *bencher) all() []part {
	parts := []part{{"control", b.controlPlane}, {"floors", b.floors}}
	for _, x := range b.backends {
		parts = append(parts, part{x.name, func(ctx context.Context) error { return b.whole(ctx, x) }})
	}
	return append(parts, part{"scaling", b.scaling}, part{"sustained", b.sustained}, part{"tools", b.tools}, part{"memory", b.memory}, part{"compute", b.compute},
		part{"growth", b.growth}, part{"queued", b.queued}, part{"batch", b.batches}, part{"http", b.http}, part{"cancel", b.cancelling}, part{"noisy", b.noisy}, part{"recovery", b.recovery})
}

// measureAll goes on after a part that failed: others took minutes.
func (b *bencher) measureAll(ctx context.Context) error {
	var failed []error
	for _, p := range b.all() {
		if !slices.Contains(b.chosen, p.name) {
			continue
		}
		began := time.Now()
		if err := p.run(ctx); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", p.name, err))
			b.report.Notes = append(b.report.Notes, fmt.Sprintf("%s FAILED, rows are missing: %v", p.name, err))
		}
		if ctx.Err() != nil {
			break
		}
		fmt.Fprintf(os.Stderr, "bench: %s took %.0f s\n", p.name, time.Since(began).Seconds())
	}
	return errors.Join(failed...)
}
