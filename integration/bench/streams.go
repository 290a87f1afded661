package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/sync/errgroup"

	"airlock/job"
	"airlock/queue"
)

const (
	// streams are how many are open at once.
	streams = 1000
	// maxEventLine bounds what is read of a stream at a time.
	maxEventLine = 1 << 20
)

// httpStreams follows many jobs at once, each by a stream of its own: how long
// after its end its client hears of it, and what the gateway holds.
func (b *bencher) httpStreams(ctx context.Context) error {
	s := series{id: "http/streams", name: fmt.Sprintf("%d event streams: from a job's end until its client heard", b.n(streams))}
	if !b.takes(s) {
		return nil
	}
	return b.withWeb(ctx, []string{"--backends", "fake"}, func(p *pool, w *web) error {
		f := newFigure(s)
		opened, ended := make(chan struct{}, streams), errgroup.Group{}
		ctx, stop := context.WithCancel(ctx)
		defer func() { stop(); _ = ended.Wait() }()
		var all sync.WaitGroup
		for range b.n(streams) {
			id, err := p.submitWaiting(ctx)
			if err != nil {
				return err
			}
			all.Add(1)
			ended.Go(func() error {
				defer all.Done()
				return w.follow(ctx, id, func() { opened <- struct{}{} }, func(at time.Time) { f.add(time.Since(at), 0, 0) })
			})
		}
		gone := make(chan struct{})
		go func() { all.Wait(); close(gone) }()
		for range b.n(streams) {
			select {
			case <-opened:
			case <-gone:
				return ended.Wait()
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		f.began = time.Now()
		late, err := b.startLate(ctx, p)
		if err != nil {
			return err
		}
		defer late.stop()
		if err := ended.Wait(); err != nil {
			return err
		}
		b.report.add(f.row().within())
		b.report.Weights = append(b.report.Weights, weight{ID: "memory/gateway/streams", Name: fmt.Sprintf("gateway with %d event streams", b.n(streams)), MiB: peak(w.pid()), Kind: "the most resident"})
		return nil
	})
}

func (p *pool) submitWaiting(ctx context.Context) (job.ID, error) {
	one := waiting
	if err := one.Prepare(time.Now()); err != nil {
		return one.ID, err
	}
	_, err := p.queue.Submit(ctx, &one, queue.SubmitOptions{Park: true})
	return one.ID, err
}

// follow reads a job's events until its end: opened is called at the first,
// finished with the time of the end.
func (w *web) follow(ctx context.Context, id job.ID, opened func(), finished func(time.Time)) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+"/v1/jobs/"+id.String()+"/events", nil)
	if err != nil {
		return err
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the events of a job: %s", resp.Status)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxEventLine)
	for name := ""; lines.Scan(); {
		line := lines.Text()
		if event, ok := strings.CutPrefix(line, "event: "); ok {
			if name == "" {
				opened()
			}
			name = event
		}
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok || name != "finished" {
			continue
		}
		var e struct {
			Result struct {
				Finished time.Time `json:"finished"`
			} `json:"result"`
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return fmt.Errorf("read an event: %w", err)
		}
		finished(e.Result.Finished)
		return nil
	}
	return fmt.Errorf("the stream of job %s ended before its job: %w", id, lines.Err())
}
