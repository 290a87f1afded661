package queue

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"airlock/job"
)

// maxMisfits bounds how long an UnplaceableError gets.
const maxMisfits = 8

// Placeable returns nil when a live worker that is not draining can run the
// job, and an *UnplaceableError that names each obstacle when none can. It
// costs a round trip only before it refuses.
func (q *Queue) Placeable(ctx context.Context, j *job.Job) error {
	fit := func(w Presence) bool { return fits(w, j) }
	if q.known(fit) {
		return nil
	}
	// The watch may lag behind, after a reconnect for instance.
	workers, err := q.Workers(ctx)
	if err != nil {
		return fmt.Errorf("check placement: %w", err)
	}
	if slices.ContainsFunc(workers, fit) {
		return nil
	}
	return unplaceable(workers, j)
}

func fits(w Presence, j *job.Job) bool {
	return !w.Draining && j.Limits.Above(w.Max) == "" &&
		slices.ContainsFunc(w.Offers, func(o job.Offer) bool { return j.Requires.Unmet(o) == "" })
}

func unplaceable(workers []Presence, j *job.Job) *UnplaceableError {
	e := &UnplaceableError{Lane: j.Requires.Lane(), Requirement: j.Requires, Workers: len(workers)}
	workers = slices.Clone(workers)
	slices.SortFunc(workers, compareWorkers)
	var near, far []Misfit
	for _, w := range workers {
		n, f := misfits(w, j)
		near, far = append(near, n...), append(far, f...)
	}
	e.Misfits = append(near, far...)
	e.Misfits = e.Misfits[:min(len(e.Misfits), maxMisfits)]
	return e
}

// misfits says why a worker cannot run the job. Near are the reasons that
// concern what the job asked for by name, or that are the only ones left; far
// is the rest.
func misfits(w Presence, j *job.Job) (near, far []Misfit) {
	note := func(list *[]Misfit, backend, reason string) {
		*list = append(*list, Misfit{Worker: w.ID, Host: w.Host, Backend: backend, Reason: reason})
	}
	for _, o := range w.Offers {
		unmet := j.Requires.Unmet(o)
		switch {
		case unmet == "" && w.Draining:
			note(&near, o.Backend, "the worker is draining")
		case unmet == "":
			note(&near, o.Backend, j.Limits.Above(w.Max))
		case slices.Contains(j.Requires.Backends, o.Backend):
			note(&near, o.Backend, unmet)
		default:
			note(&far, o.Backend, unmet)
		}
	}
	for _, backend := range slices.Sorted(maps.Keys(w.Unavailable)) {
		if slices.Contains(j.Requires.Backends, backend) {
			note(&near, backend, "not available: "+w.Unavailable[backend])
		}
	}
	if len(near)+len(far) == 0 {
		note(&far, "", "offers no backend")
	}
	return near, far
}
