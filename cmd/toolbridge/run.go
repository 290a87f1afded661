package main

import (
	"context"
	"fmt"
	"io"
	"os/signal"
	"syscall"
	"text/tabwriter"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"

	"airlock/cmd/toolbridge/internal/bridge"
	"airlock/job"
	"airlock/queue"
)

// run is the whole command; it returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	cfg, code, done := parse(args, stdout, stderr)
	if done {
		return code
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	log := zerolog.New(stderr).Level(cfg.level()).With().Timestamp().Logger()
	var err error
	if cfg.Check {
		err = check(ctx, cfg, stdout, log)
	} else {
		err = serve(ctx, cfg, stdout, log)
	}
	if err != nil {
		fmt.Fprintln(stderr, "toolbridge:", job.PrintableLines(err.Error(), 16<<10))
		return exitInternal
	}
	return exitOK
}

// check starts the servers, prints what they would serve, and ends them.
func check(ctx context.Context, cfg *config, stdout io.Writer, log zerolog.Logger) error {
	b, err := bridge.Open(ctx, cfg.servers, bridge.Options{Log: log})
	if err != nil {
		return err
	}
	defer b.Close()
	return show(stdout, b.Tools(), cfg.JSON)
}

// show prints the tools. What servers say of them is foreign.
func show(stdout io.Writer, tools []bridge.Listed, asJSON bool) error {
	if asJSON {
		if tools == nil {
			tools = []bridge.Listed{}
		}
		return json.MarshalWrite(stdout, tools, jsontext.Multiline(true))
	}
	w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TOOL\tSERVER\tITS NAME\tDESCRIPTION")
	for _, t := range tools {
		fmt.Fprintf(w, "%s.%s\t%d\t%s\t%s\n", t.Namespace, t.Name, t.Server, job.Printable(t.Original, 64), job.Printable(t.Description, 80))
	}
	return w.Flush()
}

func serve(ctx context.Context, cfg *config, stdout io.Writer, log zerolog.Logger) error {
	connecting, cancel := context.WithTimeout(ctx, cfg.ConnectTimeout)
	defer cancel()
	nc, err := queue.Connect(connecting, cfg.Nats, "airlock toolbridge", log)
	if err != nil {
		return fmt.Errorf("connect to NATS (is --nats right, and the server up?): %w", err)
	}
	defer nc.Close()
	b, err := bridge.Open(ctx, cfg.servers, bridge.Options{Log: log})
	if err != nil {
		return err
	}
	defer b.Close()
	for _, t := range b.Tools() {
		if _, err := fmt.Fprintf(stdout, "serving %s.%s\n", t.Namespace, t.Name); err != nil {
			return err
		}
	}
	return b.Serve(ctx, nc)
}
