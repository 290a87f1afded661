package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"airlock/job"
	"airlock/queue"
)

// workersCmd lists the live workers.
type workersCmd struct{}

// Run implements the command.
func (*workersCmd) Run(ctx context.Context, a *app) error {
	s, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	workers, err := s.Workers(ctx)
	if err != nil {
		return err
	}
	slices.SortFunc(workers, func(x, y queue.Presence) int { return strings.Compare(x.Host+x.ID, y.Host+y.ID) })
	g := newGrid("worker", "host", "version", "busy", "since", "labels", "policy", "backend", "isolation", "images", "templates", "network", "backend version or why not")
	return list(a, workers, "no worker is there", g, addWorker)
}

// addWorker adds a row for each backend; the worker's own facts stand in the
// first.
func addWorker(g grid, w queue.Presence) {
	busy := fmt.Sprintf("%d/%d", w.Busy, w.Slots)
	if w.Draining {
		busy += " draining"
	}
	own := []any{w.ID, w.Host, w.Version, busy, w.Started, w.Labels, policyOf(w)}
	row := func(backend ...any) {
		g.add(append(slices.Clone(own), backend...)...)
		own = []any{"", "", "", "", "", "", ""}
	}
	for _, o := range w.Offers {
		row(o.Backend, o.Isolation, imageNames(o.Images), strings.Join(o.Templates(), " "), networkOf(o), o.Version)
	}
	for _, name := range slices.Sorted(maps.Keys(w.Unavailable)) {
		row(name, "not available", "", "", "", w.Unavailable[name])
	}
	if len(w.Offers)+len(w.Unavailable) == 0 {
		row("none", "", "", "", "", "")
	}
}

// policyOf is the start of the digest, and what keeps a newer file from being
// in force.
func policyOf(w queue.Presence) string {
	digest := w.Policy[:min(12, len(w.Policy))]
	if w.PolicyProblem != "" {
		return digest + ", not its file: " + w.PolicyProblem
	}
	return digest
}

// imageNames shortens the IDs among the names of images, as docker does.
func imageNames(images []string) string {
	short := make([]string, len(images))
	for i, name := range images {
		hex, isID := strings.CutPrefix(name, "sha256:")
		if isID {
			name = hex[:min(12, len(hex))]
		}
		short[i] = name
	}
	return strings.Join(short, " ")
}

func networkOf(o job.Offer) string {
	if o.Network {
		return "allowed"
	}
	return "none"
}

// lanesCmd lists the lanes.
type lanesCmd struct{}

// Run implements the command.
func (*lanesCmd) Run(ctx context.Context, a *app) error {
	s, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	lanes, err := s.Lanes(ctx)
	if err != nil {
		return err
	}
	slices.SortFunc(lanes, func(x, y queue.Lane) int { return strings.Compare(x.Name, y.Name) })
	g := newGrid("lane", "priority", "waiting", "running", "workers", "requirement")
	return list(a, lanes, "no job was ever submitted", g, addLane)
}

func addLane(g grid, lane queue.Lane) {
	requirement, err := encodeLine(lane.Requirement)
	if err != nil {
		requirement = []byte(err.Error())
	}
	name, workers, wants := lane.Name, fmt.Sprint(len(lane.Workers)), strings.TrimSpace(string(requirement))
	for _, priority := range job.Priorities() {
		depth, ok := lane.Depth[priority]
		if !ok {
			continue
		}
		g.add(name, priority, depth.Waiting, depth.Running, workers, wants)
		name, workers, wants = "", "", ""
	}
	if name != "" {
		g.add(name, "", 0, 0, workers, wants)
	}
}
