package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"
	"golang.org/x/term"

	"airlock/broker/provider"
	"airlock/gateway"
	"airlock/job"
	"airlock/queue"
	"airlock/standalone"
)

// probePatience bounds the first job of a standalone Airlock.
const probePatience = 60 * time.Second

// runStandalone starts NATS and Postgres, then joins them as a pool of one.
func runStandalone(ctx context.Context, cfg *config, stdout, stderr io.Writer, signals <-chan os.Signal) (err error) {
	dir, err := cfg.dataDir()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make the data directory (give another with --data): %w", err)
	}
	logPath := filepath.Join(dir, "worker.log")
	logFile, err := os.OpenFile(logPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	defer func() { err = errors.Join(err, logFile.Close()) }()
	log := zerolog.New(logFile).Level(cfg.level()).With().Timestamp().Logger()

	web := &front{callbacks: gateway.CallbackConfig{Allow: cfg.CallbackAllow}}
	if web.listener, err = cfg.listen(stderr); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, web.close()) }()
	fmt.Fprintln(stderr, "worker: starting NATS and Postgres in", dir)
	ns, err := standalone.StartNATS(ctx, standalone.NATSConfig{Listen: cfg.ListenNats, Dir: filepath.Join(dir, "nats"), Log: log})
	if err != nil {
		return fmt.Errorf("start NATS: %w", err)
	}
	defer func() { err = errors.Join(err, ns.Close()) }()
	pg, err := standalone.StartPostgres(ctx, standalone.PostgresConfig{Port: cfg.PostgresPort, Dir: filepath.Join(dir, "postgres"), Log: log})
	if err != nil {
		return fmt.Errorf("start Postgres: %w", err)
	}
	defer func() { err = errors.Join(err, pg.Close()) }()

	at := servers{nats: ns.URL(), local: ns, postgres: pg.LocalURL()}
	p, err := join(ctx, cfg, at, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	if err := web.join(ctx, at, p.spans, log); err != nil {
		return fmt.Errorf("start the gateway: %w", err)
	}
	return serveStandalone(ctx, p, web, signals, func(ctx context.Context) error {
		if err := errors.Join(p.probeJob(ctx, stderr), p.awaitSamples(ctx)); err != nil {
			return err
		}
		return announceStandalone(whereabouts{dir, logPath, ns.URL(), pg.URL(), web.url(), p.scrapes.URL}, stdout)
	})
}

// serveStandalone adds the sample tools and the gateway to the worker. They end
// after it, so that who waits for a running job still hears of its end.
func serveStandalone(ctx context.Context, p *pool, web *front, signals <-chan os.Signal, ready func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return ended(groupCtx, provider.Serve(groupCtx, p.nc, provider.Math())) })
	group.Go(func() error { return web.serve(groupCtx) })
	err := p.serve(groupCtx, signals, ready)
	stop()
	return errors.Join(err, group.Wait())
}

// probeJob sends one real job through everything.
func (p *pool) probeJob(ctx context.Context, stderr io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, probePatience)
	defer cancel()
	j := &job.Job{Tenant: "airlock", Batch: "start", Code: "return 6 * 7"}
	var why string
	if j.Requires, why = p.asked(); why != "" {
		fmt.Fprintf(stderr, "worker: only jobs that require isolation none run here: %s\n", why)
	}
	if err := j.Prepare(time.Now()); err != nil {
		return fmt.Errorf("prepare the probe job: %w", err)
	}
	results, err := p.queue.Results(ctx, j.Tenant, j.Batch, j.ID)
	if err != nil {
		return fmt.Errorf("watch the probe job: %w", err)
	}
	defer results.Stop()
	if _, err := p.queue.Submit(ctx, j, queue.SubmitOptions{Park: true}); err != nil {
		return fmt.Errorf("submit the probe job: %w", err)
	}
	r, err := results.Next(ctx)
	if err != nil {
		return fmt.Errorf("wait for the probe job: %w", err)
	}
	if r.Status != job.StatusOK {
		return fmt.Errorf("the probe job ended as %s: %+v", r.Status, r.Error)
	}
	return nil
}

// awaitSamples waits until the catalogue lists the sample tools, so that the
// first job after "ready" can call them.
func (p *pool) awaitSamples(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probePatience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if t, err := p.catalogue.Find(ctx, "math", "add"); err == nil && t != nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for the sample tools: %w", ctx.Err())
		}
	}
}

// asked is what the probe job requires: what a job asks for that says nothing,
// or where no backend here can give that, the least there is. why then says
// what is missing.
func (p *pool) asked() (r job.Requirement, why string) {
	usual := job.Requirement{}.Canonical(job.Limits{})
	for _, box := range p.prober.Sandboxes().Load() {
		unmet := usual.Unmet(box.Can.Offer)
		if unmet == "" {
			return job.Requirement{}, ""
		}
		why = box.Name + " " + unmet
	}
	return job.Requirement{Isolation: job.IsolationNone}, why
}

// whereabouts are where the parts of a standalone Airlock are found.
type whereabouts struct{ dir, log, nats, postgres, http, metrics string }

// announceStandalone writes airlock.env and tells people where things are.
func announceStandalone(at whereabouts, stdout io.Writer) error {
	env := fmt.Sprintf("AIRLOCK_NATS=%s\nAIRLOCK_POSTGRES=%s\n", at.nats, at.postgres)
	web := ""
	if at.http != "" {
		env += fmt.Sprintf("AIRLOCK_HTTP=%s\n", at.http)
		web = fmt.Sprintf("http      %s (%[1]s/docs says what it serves)\n", at.http)
	}
	envPath := filepath.Join(at.dir, "airlock.env")
	// The URL of Postgres holds its password.
	if err := os.WriteFile(envPath, []byte(env), 0o600); err != nil {
		return fmt.Errorf("write airlock.env: %w", err)
	}
	shown, err := url.Parse(at.postgres)
	if err != nil {
		return fmt.Errorf("read the URL of Postgres: %w", err)
	}
	fmt.Fprintf(stdout, "nats      %s\npostgres  %s (the password is in %s)\n%smetrics   %s\nlog       %s\nuse it    set -a; . %s; set +a; submit run --code 'return 6*7'\nready\n",
		at.nats, shown.Redacted(), envPath, web, at.metrics, at.log, envPath)
	return nil
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }
