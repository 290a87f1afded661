package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"airlock/job"
)

// progressing is what progress is shown of.
type progressing interface{ snapshot() snapshot }

// snapshot is how far something has come.
type snapshot struct {
	done, total int
	// fresh of the done were done in this run; the rate counts them.
	fresh    int
	statuses map[job.Status]int
	refused  int
	elapsed  time.Duration
}

// rate is in jobs a second.
func (s snapshot) rate() float64 {
	if s.elapsed <= 0 {
		return 0
	}
	return float64(s.fresh) / s.elapsed.Seconds()
}

// left is the estimated time to the end; 0 means unknown.
func (s snapshot) left() time.Duration {
	rate := s.rate()
	if rate == 0 || s.done >= s.total {
		return 0
	}
	return time.Duration(float64(s.total-s.done) / rate * float64(time.Second)).Round(time.Second)
}

// parts are the counts by status, ok first.
func (s snapshot) parts() string {
	text := ""
	for _, status := range job.Statuses() {
		if n := s.statuses[status]; n > 0 {
			text += fmt.Sprintf(" %s %d", status, n)
		}
	}
	if s.refused > 0 {
		text += fmt.Sprintf(" refused %d", s.refused)
	}
	return text
}

// String is one line.
func (s snapshot) String() string {
	text := fmt.Sprintf("%d/%d%s, %.0f jobs/s", s.done, s.total, s.parts(), s.rate())
	if left := s.left(); left > 0 {
		text += fmt.Sprintf(", %s left", left)
	}
	return text
}

// startProgress shows progress until stopped: as a bar on a terminal, else as
// lines, or not at all with --quiet. The bar gives way to lines when the
// results go to the same terminal.
func startProgress(a *app, every time.Duration, results io.Writer, p progressing) (stop func()) {
	if a.flags.Quiet {
		return func() {}
	}
	show, interval, finish := showLines(a, p), every, func() {}
	if a.stderr.terminal && !newOutput(results).terminal {
		show, finish = showBar(a, p)
		interval = 100 * time.Millisecond
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				show()
			case <-done:
				return
			}
		}
	})
	return func() {
		close(done)
		wg.Wait()
		finish()
	}
}

func showLines(a *app, p progressing) (show func()) {
	return func() { a.talk.say("%s", p.snapshot()) }
}

// showBar owns the terminal until finish; talk goes above the bar meanwhile.
func showBar(a *app, p progressing) (show, finish func()) {
	bars := mpb.New(mpb.WithOutput(a.stderr.w), mpb.WithWidth(40), mpb.WithAutoRefresh())
	bar := bars.AddBar(0,
		mpb.PrependDecorators(decor.Any(func(decor.Statistics) string {
			s := p.snapshot()
			return fmt.Sprintf("%d/%d ", s.done, s.total)
		})),
		mpb.AppendDecorators(decor.Any(func(decor.Statistics) string {
			s := p.snapshot()
			text := fmt.Sprintf("%s  %.0f/s", s.parts(), s.rate())
			if left := s.left(); left > 0 {
				text += fmt.Sprintf("  %s left", left)
			}
			return text
		})))
	restore := a.talk.through(bars)
	show = func() {
		s := p.snapshot()
		bar.SetTotal(int64(s.total), false)
		bar.SetCurrent(int64(s.done))
	}
	return show, func() {
		show()
		bar.Abort(false)
		bars.Wait()
		restore()
	}
}
