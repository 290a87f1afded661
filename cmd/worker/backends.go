package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/rs/zerolog"

	"airlock/backends"
	"airlock/backends/all"
	"airlock/job"
)

// auto stands in --backends for every backend that isolates.
const auto = "auto"

// allBackends makes every backend as the flags want it.
func (c *config) allBackends(log zerolog.Logger) []all.Named {
	return all.All(all.Config{
		Self: c.self, Python: c.Python, AllowNoIsolation: c.AllowNoIsolation, Docker: c.docker(log), Log: log,
		Templates: c.warm, TenantTemplates: c.TenantTemplates, WasmPython: c.WasmPython,
	})
}

// choose makes the backends that --backends names, in that order.
func choose(cfg *config, log zerolog.Logger) ([]all.Named, error) {
	known := cfg.allBackends(log)
	var chosen []all.Named
	for _, name := range cfg.Backends {
		if name == auto {
			for _, n := range known {
				if n.Auto || n.Name == "local" && cfg.AllowNoIsolation {
					chosen = append(chosen, n)
				}
			}
			continue
		}
		at := slices.IndexFunc(known, func(n all.Named) bool { return n.Name == name })
		if at < 0 {
			return nil, fmt.Errorf("--backends: %q is unknown, want auto or some of %s", job.Printable(name, 40), names(known))
		}
		chosen = append(chosen, known[at])
	}
	return chosen, nil
}

func names(known []all.Named) string {
	list := make([]string, len(known))
	for i, n := range known {
		list[i] = n.Name
	}
	return strings.Join(list, ", ")
}

// listed is a row of --list-backends.
type listed struct {
	Backend   string          `json:"backend"`
	Available bool            `json:"available"`
	Isolation job.Isolation   `json:"isolation,omitzero"`
	Version   string          `json:"version,omitzero"`
	Python    string          `json:"python,omitzero"`
	Limits    []job.LimitName `json:"limits,omitzero"`
	Images    []string        `json:"images,omitzero"`
	Forked    bool            `json:"forked,omitzero"`
	Templates []string        `json:"templates,omitzero"`
	Network   bool            `json:"network,omitzero"`
	Isolated  *job.Isolated   `json:"facts,omitzero"`
	Reason    string          `json:"reason,omitzero"`
}

// listBackends probes every backend and prints what each can do here. It
// fails only when it cannot ask; a host without a backend is an answer.
func listBackends(ctx context.Context, cfg *config, log zerolog.Logger, stdout, stderr io.Writer) int {
	// What a backend cannot offer of all that it is to, it says to the log.
	known := cfg.allBackends(log)
	var rows []listed
	for _, n := range known {
		rows = append(rows, probed(ctx, n.Name, n.Backend))
		if err := n.Backend.Close(); err != nil {
			fmt.Fprintf(stderr, "worker: close %s: %v\n", n.Name, err)
		}
	}
	if cfg.JSON {
		return printJSON(rows, "worker", stdout, stderr)
	}
	fmt.Fprintln(stdout, render(rows))
	return exitOK
}

func probed(ctx context.Context, name string, b backends.Backend) listed {
	can, err := b.Probe(ctx)
	if err != nil {
		return listed{Backend: name, Reason: err.Error()}
	}
	return listed{
		Backend: name, Available: true, Isolation: can.Isolation, Version: can.Version, Python: can.Python,
		Limits: can.Limits, Images: can.Images, Forked: can.Forked, Templates: can.Templates(), Network: can.Network, Isolated: &can.Isolated,
	}
}

func render(rows []listed) string {
	g := newGrid("backend", "isolation", "version", "python", "limits it holds", "images", "templates", "network", "not available because")
	for _, r := range rows {
		limits := make([]string, len(r.Limits))
		for i, l := range r.Limits {
			limits[i] = string(l)
		}
		g.add(r.Backend, r.Isolation, r.Version, r.Python, strings.Join(limits, " "), imageNames(r.Images), strings.Join(r.Templates, " "), r.network(), r.Reason)
	}
	return g.Render()
}

// network is shown only of backends that work.
func (l listed) network() string {
	switch {
	case !l.Available:
		return ""
	case l.Network:
		return "allowed"
	}
	return "none"
}

// imageNames shortens the IDs among the names of images.
func imageNames(images []string) string {
	short := make([]string, len(images))
	for i, name := range images {
		short[i] = shortID(name)
	}
	return strings.Join(short, " ")
}
