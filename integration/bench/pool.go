package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"airlock/job"
	"airlock/queue"
)

// pool is a standalone Airlock in a process of its own, and a submitter's
// connection to it.
type pool struct {
	cmd   *exec.Cmd
	dir   string
	queue *queue.Queue
	close func()
}

func startPool(ctx context.Context, bin string, args ...string) (*pool, error) {
	dir, err := os.MkdirTemp("", "airlock-bench-")
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, err
	}
	args = append([]string{"--standalone", "--data", dir, "--listen-nats", "127.0.0.1:0", "--log-level", "warn"}, args...)
	p := &pool{cmd: exec.CommandContext(ctx, filepath.Join(bin, "worker"), args...), dir: dir, close: func() {}}
	p.cmd.Stderr = os.Stderr
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if lines.Text() == "ready" {
			return p, p.attach(ctx)
		}
	}
	p.stop()
	return nil, errors.New("the worker ended before it was ready")
}

func (p *pool) attach(ctx context.Context) error {
	raw, err := os.ReadFile(filepath.Join(p.dir, "airlock.env"))
	if err != nil {
		return err
	}
	url, _, _ := strings.Cut(strings.TrimPrefix(string(raw), "AIRLOCK_NATS="), "\n")
	nc, err := queue.Connect(ctx, url, "bench", zerolog.Nop())
	if err != nil {
		return err
	}
	p.close = nc.Close
	p.queue, err = queue.Attach(ctx, nc, queue.Config{})
	return err
}

func (p *pool) stop() {
	p.close()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	_ = p.cmd.Wait()
	_ = os.RemoveAll(p.dir)
}

// watch hands each result of a batch to its submitter.
func (p *pool) watch(ctx context.Context, batch string, seen func(*job.Result) error) error {
	results, err := p.queue.Results(ctx, job.DefaultTenant, batch, job.ID{})
	if err != nil {
		return err
	}
	defer results.Stop()
	for {
		r, err := results.Next(ctx)
		if err != nil {
			return err
		}
		if r.Status != job.StatusOK {
			return fmt.Errorf("a job ended as %s: %+v", r.Status, r.Error)
		}
		if err := seen(r); err != nil {
			return err
		}
	}
}

var errAllSeen = errors.New("all results are there")

// run takes a figure: with one job in flight, each is submitted when the
// result of the one before was seen.
func (p *pool) run(ctx context.Context, s series) (*figure, error) {
	batch := "bench-" + job.NewID().String()
	group, ctx := errgroup.WithContext(ctx)
	window := make(chan struct{}, s.inFlight)
	var submitted sync.Map
	f := newFigure(s)
	left := s.count
	group.Go(func() error {
		return p.watch(ctx, batch, func(r *job.Result) error {
			if began, ok := submitted.LoadAndDelete(r.Job); ok {
				f.add(time.Since(began.(time.Time)), r.Usage.Startup.Std())
				<-window
			}
			if left--; left == 0 {
				return errAllSeen
			}
			return nil
		})
	})
	submitters := min(s.inFlight, 16)
	for i := range submitters {
		share := s.count / submitters
		if i == 0 {
			share += s.count % submitters
		}
		group.Go(func() error { return p.submit(ctx, s, batch, share, window, &submitted) })
	}
	if err := group.Wait(); !errors.Is(err, errAllSeen) {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	return f.done(), nil
}

func (p *pool) submit(ctx context.Context, s series, batch string, count int, window chan struct{}, submitted *sync.Map) error {
	for range count {
		select {
		case window <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		time.Sleep(s.gap)
		one := s.job
		one.ID, one.Batch = job.NewID(), batch
		if err := one.Prepare(time.Now()); err != nil {
			return err
		}
		submitted.Store(one.ID, time.Now())
		if _, err := p.queue.Submit(ctx, &one, queue.SubmitOptions{}); err != nil {
			return err
		}
	}
	return nil
}
