package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/go-json-experiment/json"

	"airlock/job"
)

// traced is what this needs of an event of a worker's trace.
type traced struct {
	Name string `json:"name"`
	// From and Took are in microseconds.
	From int64 `json:"ts"`
	Took int64 `json:"dur"`
	Args struct {
		Job string `json:"job"`
	} `json:"args"`
}

// firstBytes measures, by the worker's own trace, from when a job is the
// worker's until the first byte that its guest printed was there: what a guest
// that stands ready has to do, without the queue before and the commit after.
func (b *bencher) firstBytes(ctx context.Context, x backend) error {
	s := series{
		id: x.name + "/first/spaced", name: fmt.Sprintf("%s, from a job's claim until its guest's first byte, %d ms between jobs", x.name, x.gap.Milliseconds()),
		job: plain, count: b.n(x.spaced), inFlight: 1, gap: x.gap,
	}
	if !b.takes(s) {
		return nil
	}
	dir, err := os.MkdirTemp("", "airlock-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	trace := filepath.Join(dir, "trace.json")
	var jobs []job.ID
	s.each = func(r *job.Result) error { jobs = append(jobs, r.Job); return nil }
	warm := series{job: plain, count: x.warm, inFlight: 1}
	err = b.measure(ctx, []string{"--backends", x.name, "--slots", "2", "--trace", trace}, nil, func(p *pool) error {
		_, err := p.run(ctx, warm)
		if err == nil {
			_, err = p.run(ctx, s)
		}
		return err
	})
	if err != nil {
		return err
	}
	took, err := untilFirst(trace)
	if err != nil {
		return err
	}
	f := newFigure(s)
	for _, id := range jobs {
		first, ok := took[id.String()]
		if !ok {
			return fmt.Errorf("the worker's trace has no first byte of %s, which printed", id)
		}
		f.add(first, 0, 0)
	}
	b.report.add(f.row().within())
	return nil
}

// untilFirst reads how long each job of a whole trace took from its claim until
// its guest's first byte. An attempt's event comes before those of its moments,
// each of which ends at its moment.
func untilFirst(path string) (map[string]time.Duration, error) {
	doc, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the worker's trace: %w", err)
	}
	var events []traced
	if err := json.Unmarshal(doc, &events); err != nil {
		return nil, fmt.Errorf("read the worker's trace: %w", err)
	}
	took := map[string]time.Duration{}
	var id string
	var claimed int64
	for _, e := range events {
		switch e.Name {
		case "job":
			id, claimed = e.Args.Job, 0
		case "claimed":
			claimed = e.From + e.Took
		case "first byte":
			if claimed > 0 {
				took[id] = time.Duration(e.From+e.Took-claimed) * time.Microsecond
			}
		}
	}
	if len(took) == 0 {
		return nil, errors.New("read the worker's trace: no job in it printed")
	}
	return took, nil
}
