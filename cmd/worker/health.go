package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/rs/zerolog"

	"airlock/queue"
)

// healthCommand is for health checks of the container or unit that the worker
// runs in. It asks the fleet, not the process: a worker that is alive but has
// no queue, or nothing to run jobs with, is of no use.
type healthCommand struct {
	natsFlags
	JSON bool `name:"json" help:"Print JSON."`
}

func (c *healthCommand) run(ctx context.Context, stdout, stderr io.Writer) int {
	host, err := os.Hostname()
	if err != nil {
		return told(fmt.Errorf("learn the host's name: %w", err), "health", stderr)
	}
	found, err := c.here(ctx, host)
	if err != nil {
		return told(err, "health", stderr)
	}
	if c.JSON {
		return printJSON(found, "worker health", stdout, stderr)
	}
	fmt.Fprintf(stdout, "worker %s takes jobs, %d of %d slots busy\n", found.ID, found.Busy, found.Slots)
	return exitOK
}

// here finds a worker of this host that takes jobs. A dead one is shown until
// its presence has aged out.
func (c *healthCommand) here(ctx context.Context, host string) (queue.Presence, error) {
	nc, err := c.connect(ctx, "airlock health check", zerolog.Nop())
	if err != nil {
		return queue.Presence{}, err
	}
	defer nc.Close()
	q, err := queue.Attach(ctx, nc, queue.Config{Log: zerolog.Nop()})
	if err != nil {
		return queue.Presence{}, fmt.Errorf("look for workers: %w", err)
	}
	defer q.Close()
	workers, err := q.Workers(ctx)
	if err != nil {
		return queue.Presence{}, err
	}
	why := "none is there"
	for _, w := range workers {
		switch {
		case w.Host != host:
		case w.Draining:
			why = "it is draining"
		case len(w.Offers) == 0:
			why = "it offers no backend"
		default:
			return w, nil
		}
	}
	return queue.Presence{}, fmt.Errorf("no worker of %s takes jobs: %s; see its log", host, why)
}
