// Command bench measures Airlock on this machine, everything in one run, and
// prints one table: the control plane alone with the fake backend, the whole
// path with bubblewrap, and bwrap with python3 started by hand for each job.
// Machines are noisy: compare only the rows of one run.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"airlock/job"
)

func main() {
	scale := flag.Float64("scale", 1, "multiplies how many jobs each figure is taken from")
	bin := flag.String("bin", "bin", "directory of the worker and submit binaries")
	flag.Parse()
	if err := bench(context.Background(), *bin, *scale); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func bench(ctx context.Context, bin string, scale float64) error {
	n := func(count int) int { return max(20, int(float64(count)*scale)) }
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.SetTitle(fmt.Sprintf("%d processors, %s/%s, %s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, time.Now().UTC().Format(time.DateTime)))
	t.AppendHeader(table.Row{"what", "jobs", "p50 ms", "p99 ms", "jobs/s", "target"})

	fmt.Fprintln(os.Stderr, "bench: control plane")
	control, err := controlPlane(ctx, bin, n)
	if err != nil {
		return err
	}
	control[0].row(t, "p50 ≤ 3 ms")
	control[1].row(t, "≥ 2000 jobs/s")

	fmt.Fprintln(os.Stderr, "bench: bwrap and python3 by hand")
	bare, err := bareSandbox(ctx, n(200))
	if err != nil {
		return err
	}
	bare.row(t, "")

	fmt.Fprintln(os.Stderr, "bench: whole path")
	whole, err := wholePath(ctx, bin, n)
	if err != nil {
		return err
	}
	for i, f := range whole {
		f.row(t, []string{"p50 ≤ bare + 5 ms", "", "", ""}[i])
	}
	fmt.Println(t.Render())
	fmt.Printf("whole path over bare sandbox, one after the other, p50: %+.2f ms (%.2f times)\n",
		ms(whole[0].at(50)-bare.at(50)), float64(whole[0].at(50))/float64(bare.at(50)))
	fmt.Printf("whole path with 2 slots against bare, one after the other: %.2f times\n", whole[1].rate()/bare.rate())
	return nil
}

// controlPlane measures everything but a sandbox, idle and sustained.
func controlPlane(ctx context.Context, bin string, n func(int) int) ([]*figure, error) {
	p, err := startPool(ctx, bin, "--backends", "fake", "--slots", "64")
	if err != nil {
		return nil, err
	}
	defer p.stop()
	j := job.Job{Code: "1", Requires: job.Requirement{Isolation: job.IsolationNone, Backends: []string{"fake"}}}
	if _, err := p.run(ctx, "warm-up", j, n(200), 1); err != nil {
		return nil, err
	}
	idle, err := p.run(ctx, "control plane, fake backend, idle", j, n(1000), 1)
	if err != nil {
		return nil, err
	}
	sustained, err := p.run(ctx, "control plane, fake backend, 64 slots", j, n(20_000), 128)
	return []*figure{idle, sustained}, err
}

// wholePath measures real guests: idle, sustained, and with a tool call.
func wholePath(ctx context.Context, bin string, n func(int) int) ([]*figure, error) {
	p, err := startPool(ctx, bin, "--backends", "bubblewrap", "--slots", "2")
	if err != nil {
		return nil, err
	}
	defer p.stop()
	plain := job.Job{Code: "print(1)"}
	call := job.Job{Code: "return (await add(a=1, b=2))['sum']", Tools: []job.Grant{{Namespace: "math", Name: "add"}}}
	if _, err := p.run(ctx, "warm-up", plain, n(20), 1); err != nil {
		return nil, err
	}
	idle, err := p.run(ctx, "whole path, bubblewrap, one after the other", plain, n(200), 1)
	if err != nil {
		return nil, err
	}
	spaced, err := p.spaced(ctx, "whole path, bubblewrap, 50 ms between jobs", plain, n(100), 1, 50*time.Millisecond)
	if err != nil {
		return nil, err
	}
	sustained, err := p.run(ctx, "whole path, bubblewrap, 2 slots", plain, n(1000), 16)
	if err != nil {
		return nil, err
	}
	called, err := p.run(ctx, "whole path with one tool call, 2 slots", call, n(1000), 16)
	return []*figure{idle, sustained, called, spaced}, err
}

// bareSandbox starts bwrap with python3 for each job, with nothing around it.
func bareSandbox(ctx context.Context, count int) (*figure, error) {
	args := []string{
		"--unshare-all", "--die-with-parent", "--cap-drop", "ALL", "--clearenv", "--ro-bind", "/usr", "/usr",
		"--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--tmpfs", "/tmp", "--chdir", "/tmp",
		"--", "/usr/bin/python3", "-I", "-S", "-B", "-c", "print(1)",
	}
	f := newFigure("bwrap + python3 by hand, one after the other")
	for range count {
		began := time.Now()
		out, err := exec.CommandContext(ctx, "bwrap", args...).CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("bwrap by hand: %w: %s", err, out)
		}
		f.add(time.Since(began))
	}
	return f.done(), nil
}
