package main

import (
	"context"
	"fmt"
	"io"

	"github.com/rs/zerolog"

	"airlock/backends/all"
	"airlock/backends/docker"
	"airlock/store"
	"airlock/worker/doctor"
)

// exitFailed says that what was asked for was done, and went badly.
const exitFailed = 1

// doctorCommand looks at the host.
type doctorCommand struct {
	// self is as in run.
	self all.Self

	engineFlags
	wasmFlags
	Nats     string `help:"URL of a NATS server to look at." placeholder:"URL"`
	Postgres string `help:"URL of a Postgres database to look at. Better given as AIRLOCK_POSTGRES when it holds a password." placeholder:"URL"`
	Python   string `help:"The interpreter that guests would run; found by itself if not given." placeholder:"PATH"`
	JSON     bool   `name:"json" help:"Print JSON."`
}

// run examines this host. It fails when it found something critical.
func (c *doctorCommand) run(ctx context.Context, stdout, stderr io.Writer) int {
	fmt.Fprintln(stderr, "worker doctor: looking; each backend runs a guest")
	report := doctor.Examine(ctx, c.host(ctx))
	if c.JSON {
		if code := printJSON(report, "worker doctor", stdout, stderr); code != exitOK {
			return code
		}
	} else {
		fmt.Fprintln(stdout, renderReport(report))
	}
	if report.Critical() {
		return exitFailed
	}
	return exitOK
}

// host is this one with all that has to be asked.
func (c *doctorCommand) host(ctx context.Context) doctor.Host {
	h := doctor.This()
	h.NATS, h.Postgres = c.Nats, c.Postgres
	h.Engine, h.Database = c.engine(ctx), c.database(ctx)
	for _, n := range all.All(all.Config{Self: c.self, Python: c.Python, WasmPython: c.WasmPython, Docker: c.docker(zerolog.Nop()), Log: zerolog.Nop()}) {
		// Those that isolate nothing say nothing about the host.
		if n.Auto {
			row := probed(ctx, n.Name, n.Backend)
			h.Backends = append(h.Backends, doctor.Backend{Name: n.Name, Isolation: row.Isolation, Reason: row.Reason})
		}
		_ = n.Backend.Close()
	}
	return h
}

func (c *doctorCommand) engine(ctx context.Context) *doctor.Engine {
	about, err := docker.Ask(ctx, c.docker(zerolog.Nop()))
	e := &doctor.Engine{
		Address: about.Address, TLS: about.TLS, Version: about.Version, Containerd: about.Containerd, Runc: about.Runc,
		Rootless: about.Rootless, Remapped: about.Remapped, LiveRestore: about.LiveRestore,
	}
	if err != nil {
		e.Error = err.Error()
	}
	return e
}

func (c *doctorCommand) database(ctx context.Context) *doctor.Database {
	if c.Postgres == "" {
		return nil
	}
	p, err := store.Look(ctx, c.Postgres)
	if err != nil {
		return &doctor.Database{Error: err.Error()}
	}
	return &doctor.Database{Listens: p.Listens, TLS: p.TLS, Open: p.Open, Superuser: p.Superuser}
}

func renderReport(r doctor.Report) string {
	g := newGrid("severity", "check", "what was seen", "remedy")
	g.wrap(3, 4)
	count := map[doctor.Severity]int{}
	for _, f := range r.Findings {
		count[f.Severity]++
		g.add(f.Severity, f.Check, f.Seen, f.Remedy)
	}
	text := g.Render()
	if len(r.Findings) == 0 {
		text = "nothing found"
	}
	for _, s := range doctor.Severities() {
		text += fmt.Sprintf("\n%d %s", count[s], s)
	}
	return text + fmt.Sprintf("\n%d checks found nothing", len(r.Passed))
}
