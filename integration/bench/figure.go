package main

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
)

// figure is one measured row.
type figure struct {
	name  string
	began time.Time
	took  time.Duration

	mu    sync.Mutex
	times []time.Duration // guarded by mu until done
}

func newFigure(name string) *figure { return &figure{name: name, began: time.Now()} }

func (f *figure) add(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.times = append(f.times, d)
}

// done ends the measurement.
func (f *figure) done() *figure {
	f.took = time.Since(f.began)
	slices.Sort(f.times)
	return f
}

// at is a percentile.
func (f *figure) at(percent int) time.Duration {
	return f.times[min(len(f.times)-1, len(f.times)*percent/100)]
}

func (f *figure) rate() float64 { return float64(len(f.times)) / f.took.Seconds() }

func (f *figure) row(t table.Writer, target string) {
	t.AppendRow(table.Row{
		f.name, len(f.times), fmt.Sprintf("%.2f", ms(f.at(50))), fmt.Sprintf("%.2f", ms(f.at(99))),
		fmt.Sprintf("%.0f", f.rate()), target,
	})
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
