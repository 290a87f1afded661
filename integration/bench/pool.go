package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
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
	*worker
	dir string
	// env is what others need to join it.
	env []string
	// url and postgresURL are where its servers are.
	url, postgresURL string

	queue *queue.Queue
	close func()
}

// worker is a worker's process.
type worker struct{ cmd *exec.Cmd }

func startWorker(ctx context.Context, bin string, env []string, args ...string) (*worker, error) {
	w, _, err := startProcess(exec.CommandContext(ctx, filepath.Join(bin, "worker"), args...), env)
	if err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	return w, nil
}

// startProcess starts a worker or a gateway, and returns what it said until it
// was ready.
func startProcess(cmd *exec.Cmd, env []string) (w *worker, said string, err error) {
	w = &worker{cmd: cmd}
	w.cmd.Env = append(os.Environ(), env...)
	w.cmd.Cancel = func() error { return w.cmd.Process.Signal(syscall.SIGTERM) }
	w.cmd.WaitDelay = patience
	var talk bytes.Buffer
	w.cmd.Stderr = &talk
	stdout, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	if err := w.cmd.Start(); err != nil {
		return nil, "", fmt.Errorf("start it (make build builds it): %w", err)
	}
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if lines.Text() == "ready" {
			return w, said, nil
		}
		said += lines.Text() + "\n"
	}
	w.stop()
	return nil, "", fmt.Errorf("it ended before it was ready: %s", strings.TrimSpace(talk.String()))
}

// patience is how long a worker may take to end what it started.
const patience = time.Minute

func (w *worker) pid() int { return w.cmd.Process.Pid }

func (w *worker) stop() {
	_ = w.cmd.Process.Signal(syscall.SIGTERM)
	_ = w.cmd.Wait()
}

func startPool(ctx context.Context, bin string, args ...string) (*pool, error) {
	dir, err := os.MkdirTemp("", "airlock-bench-")
	if err != nil {
		return nil, err
	}
	p := &pool{dir: dir, close: func() {}}
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	args = append([]string{"--standalone", "--data", dir, "--listen-nats", "127.0.0.1:0", "--listen-http", "127.0.0.1:0", "--log-level", "warn"}, args...)
	if p.worker, err = startWorker(ctx, bin, nil, args...); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := p.attach(ctx); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

func (p *pool) attach(ctx context.Context) error {
	raw, err := os.ReadFile(filepath.Join(p.dir, "airlock.env"))
	if err != nil {
		return err
	}
	p.env = strings.Fields(string(raw))
	for _, line := range p.env {
		switch name, value, _ := strings.Cut(line, "="); name {
		case "AIRLOCK_NATS":
			p.url = value
		case "AIRLOCK_POSTGRES":
			p.postgresURL = value
		}
	}
	nc, err := queue.Connect(ctx, p.url, "bench", zerolog.Nop())
	if err != nil {
		return err
	}
	p.close = nc.Close
	p.queue, err = queue.Attach(ctx, nc, queue.Config{})
	return err
}

func (p *pool) stop() {
	p.close()
	p.worker.stop()
	_ = os.RemoveAll(p.dir)
}

// postgres are the processes of the private Postgres.
func (p *pool) postgres() (pids []int) {
	for _, q := range below(processes(), p.pid()) {
		if isPostgres(q) {
			pids = append(pids, q.pid)
		}
	}
	return pids
}

// watch hands each result of a batch to its submitter.
func (p *pool) watch(ctx context.Context, tenant, batch string, seen func(*job.Result) error) error {
	results, err := p.queue.Results(ctx, tenant, batch, job.ID{})
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

// round is one series that runs.
type round struct {
	*figure
	pool  *pool
	batch string
	// window has a place for each job in flight.
	window    chan struct{}
	submitted sync.Map // job.ID → time.Time
	issued    atomic.Int64
}

var errAllSeen = errors.New("all results are there")

// run takes a figure: with one job in flight, each is submitted when the
// result of the one before was seen.
func (p *pool) run(ctx context.Context, s series) (*figure, error) {
	before := spentBy(p.pid())
	r := &round{figure: newFigure(s), pool: p, batch: "bench-" + job.NewID().String(), window: make(chan struct{}, s.inFlight)}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.watch(ctx, job.DefaultTenant, r.batch, r.end) })
	group.Go(func() error { return r.submitAll(ctx) })
	if err := group.Wait(); !errors.Is(err, errAllSeen) {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	if len(r.jobs) == 0 {
		return nil, fmt.Errorf("%s: no job ended in %s", s.name, s.lasting)
	}
	r.spent = spentBy(p.pid()).since(before)
	return r.figure, nil
}

func (r *round) end(result *job.Result) error {
	began, ok := r.submitted.LoadAndDelete(result.Job)
	if !ok {
		return nil // told twice
	}
	r.add(time.Since(began.(time.Time)), result.Usage.Startup.Std(), result.Usage.CPU.Std())
	<-r.window
	if r.each != nil {
		return r.each(result)
	}
	return nil
}

// maxSubmitters bounds the goroutines that submit.
const maxSubmitters = 16

func (r *round) submitAll(ctx context.Context) error {
	group, groupCtx := errgroup.WithContext(ctx)
	for range min(r.inFlight, maxSubmitters) {
		group.Go(func() error { return r.submit(groupCtx) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for range r.inFlight { // each place that is free is a job that ended
		if err := r.enter(ctx); err != nil {
			return err
		}
	}
	return errAllSeen
}

func (r *round) enter(ctx context.Context) error {
	select {
	case r.window <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// more reports whether one more job is to be submitted.
func (r *round) more() bool {
	if r.lasting > 0 {
		return time.Since(r.began) < r.lasting
	}
	return r.issued.Add(1) <= int64(r.count)
}

func (r *round) submit(ctx context.Context) error {
	for r.more() {
		if err := r.enter(ctx); err != nil {
			return err
		}
		time.Sleep(r.gap)
		one := r.job
		one.ID, one.Batch = job.NewID(), r.batch
		if err := one.Prepare(time.Now()); err != nil {
			return err
		}
		r.submitted.Store(one.ID, time.Now())
		if _, err := r.pool.queue.Submit(ctx, &one, queue.SubmitOptions{}); err != nil {
			return err
		}
	}
	return nil
}
