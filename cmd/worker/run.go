package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"airlock/backends"
	"airlock/backends/all"
)

// run is the whole command; it returns the exit code. self is the leave to
// start this program again; the zero one has the backends that would do so say
// that they are not available.
func run(ctx context.Context, self all.Self, args []string, stdout, stderr io.Writer) int {
	if c, ok := lookUp(self, args); ok {
		return c.start(ctx, args[1:], stdout, stderr)
	}
	cfg, code, done := parse(args, stdout, stderr)
	if done {
		return code
	}
	cfg.self = self
	// Parts are ended in order by the drain, not by a signal: the context
	// that they live in ends last.
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)

	console := consoleLog(cfg, stderr)
	if cfg.ListBackends {
		return listBackends(ctx, cfg, console.Level(max(cfg.level(), zerolog.WarnLevel)), stdout, stderr)
	}
	if cfg.AllowNoIsolation {
		fmt.Fprint(stderr, banner)
	}
	var err error
	if cfg.Standalone {
		err = runStandalone(ctx, cfg, stdout, stderr, signals)
	} else {
		err = runPool(ctx, cfg, stdout, console, signals)
	}
	if err != nil {
		fmt.Fprintln(stderr, "worker:", err)
		return exitInternal
	}
	return exitOK
}

// banner is shown on every start that offers no isolation.
const banner = `
  *******************************************************************
  *  --allow-no-isolation: the local backend is offered. Its guests *
  *  run as this user and reach everything this user reaches.       *
  *  Never give it code that you would not run yourself.            *
  *******************************************************************
`

// consoleLog writes for people on a terminal and JSON elsewhere.
func consoleLog(cfg *config, stderr io.Writer) zerolog.Logger {
	var out io.Writer = stderr
	if f, ok := stderr.(*os.File); ok && isTerminal(f) {
		out = zerolog.ConsoleWriter{Out: f, TimeFormat: time.TimeOnly}
	}
	return zerolog.New(out).Level(cfg.level()).With().Timestamp().Logger()
}

// runPool joins the pool at --nats and --postgres.
func runPool(ctx context.Context, cfg *config, stdout io.Writer, log zerolog.Logger, signals <-chan os.Signal) error {
	p, err := join(ctx, cfg, servers{nats: cfg.Nats, postgres: cfg.Postgres}, log)
	if err != nil {
		return err
	}
	defer p.close()
	return p.serve(ctx, signals, func(context.Context) error {
		if p.scrapes != nil {
			fmt.Fprintf(stdout, "metrics   %s\n", p.scrapes.URL)
		}
		fmt.Fprintln(stdout, "ready")
		return nil
	})
}

// errLeft says that a second signal cut the drain short.
var errLeft = errors.New("left at once on the second signal; running jobs are found again by their leases")

// noBackend explains a worker that has nothing to offer.
func noBackend(unavailable map[string]string) error {
	text := "no backend is available:"
	for _, name := range sortedKeys(unavailable) {
		text += fmt.Sprintf("\n  %s: %s", name, unavailable[name])
	}
	return fmt.Errorf("%s\nSee 'worker --list-backends': %w", text, backends.ErrUnavailable)
}
