// Command bench measures Airlock on this machine, everything in one run, and
// prints one table: the control plane alone with the fake backend, the whole
// path with each backend that works here, and what such a sandbox takes when
// it is started by hand for each job. Machines are noisy: compare only the
// rows of one run, and none of a run on a busy machine.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
)

func main() {
	scale := flag.Float64("scale", 1, "multiplies how many jobs each figure is taken from")
	bin := flag.String("bin", "bin", "directory of the worker and submit binaries")
	out := flag.String("json", "", "file to write the figures to as well, as JSON")
	parts := flag.String("parts", "control,bubblewrap,docker", "what to measure")
	flag.Parse()
	if err := bench(context.Background(), *bin, *out, *scale, strings.Split(*parts, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// fewest is how many jobs a figure is taken from at least.
const fewest = 20

func bench(ctx context.Context, bin, out string, scale float64, chosen []string) error {
	r := &report{Machine: thisMachine(ctx)}
	b := &bencher{bin: bin, n: func(count int) int { return max(fewest, int(float64(count)*scale)) }}
	parts := map[string]func(context.Context) ([]*figure, error){
		"control": b.controlPlane, "bubblewrap": b.bubblewrap, "docker": b.docker,
	}
	for _, name := range chosen {
		run := parts[name]
		if run == nil {
			return fmt.Errorf("-parts: %q is unknown, want some of control,bubblewrap,docker", name)
		}
		fmt.Fprintln(os.Stderr, "bench:", name)
		figures, err := run(ctx)
		if why, absent := isAbsent(err); absent {
			r.Notes = append(r.Notes, fmt.Sprintf("no rows for %s: %s", name, why))
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		r.add(figures)
	}
	r.compare()
	fmt.Println(r.render())
	if out == "" {
		return nil
	}
	return r.writeJSON(out)
}
