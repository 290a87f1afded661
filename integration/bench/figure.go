package main

import (
	"slices"
	"sync"
	"time"
)

// figure is one measured row.
type figure struct {
	series
	began time.Time
	took  time.Duration

	mu sync.Mutex // guards both until done
	// times are from a job's submission until its result was seen, starts
	// from its claim until its guest said hello.
	times, starts []time.Duration
}

func newFigure(s series) *figure { return &figure{series: s, began: time.Now()} }

// add adds a job. start is 0 where nothing tells it.
func (f *figure) add(took, start time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.times = append(f.times, took)
	if start > 0 {
		f.starts = append(f.starts, start)
	}
}

// done ends the measurement.
func (f *figure) done() *figure {
	f.took = time.Since(f.began)
	slices.Sort(f.times)
	slices.Sort(f.starts)
	return f
}

// row is a figure as it is reported.
type row struct {
	ID       string   `json:"id"`
	Name     string   `json:"name"`
	Jobs     int      `json:"jobs"`
	P50      float64  `json:"p50_ms"`
	P99      float64  `json:"p99_ms"`
	StartP50 *float64 `json:"start_p50_ms,omitzero"`
	StartP99 *float64 `json:"start_p99_ms,omitzero"`
	// Rate is of the whole series, its pauses included.
	Rate   float64 `json:"jobs_per_s"`
	Target string  `json:"target,omitzero"`
}

func (f *figure) row() row {
	r := row{
		ID: f.id, Name: f.name, Jobs: len(f.times), P50: ms(at(f.times, 50)), P99: ms(at(f.times, 99)),
		Rate: float64(len(f.times)) / f.took.Seconds(), Target: f.target,
	}
	if len(f.starts) > 0 {
		half, most := ms(at(f.starts, 50)), ms(at(f.starts, 99))
		r.StartP50, r.StartP99 = &half, &most
	}
	return r
}

// at is a percentile of sorted times.
func at(times []time.Duration, percent int) time.Duration {
	return times[min(len(times)-1, len(times)*percent/100)]
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
