package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"airlock/job"
)

// listed is what this needs of a row of worker --list-backends --json.
type listed struct {
	Backend   string       `json:"backend"`
	Available bool         `json:"available"`
	Isolation string       `json:"isolation"`
	Reason    string       `json:"reason"`
	Facts     job.Isolated `json:"facts"`
}

func listBackends(ctx context.Context, bin string) ([]listed, error) {
	out, err := exec.CommandContext(ctx, filepath.Join(bin, "worker"), "--list-backends", "--json").Output()
	if err != nil {
		return nil, fmt.Errorf("ask the worker for its backends (make build builds it): %w", err)
	}
	var all []listed
	if err := json.Unmarshal(out, &all); err != nil {
		return nil, fmt.Errorf("read the worker's backends: %w", err)
	}
	return all, nil
}

// backend is one that is measured.
type backend struct {
	name string
	// gap between jobs is long enough for the next guest to stand ready.
	gap time.Duration
	// spaced is how many jobs with such gaps give a figure.
	spaced int
	// lasting is how long a sustained series is, warm how many jobs come
	// before the first that counts.
	lasting time.Duration
	warm    int
	// ownProcess says that a guest is one process below the worker, in no pid
	// namespace by which it could be told from what keeps it.
	ownProcess bool
}

// known are the backends in the order of preference. One that is not among
// them comes last and is measured like bubblewrap.
var known = []backend{
	{name: "forkserver", gap: 10 * time.Millisecond, spaced: 250, lasting: 10 * time.Second, warm: 100},
	{name: "bubblewrap", gap: 50 * time.Millisecond, spaced: 100, lasting: 10 * time.Second, warm: 20},
	{name: "docker", gap: 400 * time.Millisecond, spaced: 40, lasting: 15 * time.Second, warm: 5},
	{name: "wasm", gap: 500 * time.Millisecond, spaced: 40, lasting: 10 * time.Second, warm: 5, ownProcess: true},
}

// unmeasured are the backends without a wall.
var unmeasured = []string{"local", "fake"}

// sort keeps those that work here, and notes why the others do not.
func (b *bencher) sort(all []listed) {
	for _, x := range known {
		at := slices.IndexFunc(all, func(l listed) bool { return l.Backend == x.name })
		switch {
		case at < 0:
			b.report.absent(x.name, "the worker has no such backend")
		case !all[at].Available:
			b.report.absent(x.name, all[at].Reason)
		default:
			b.backends = append(b.backends, x)
		}
	}
	for _, l := range all {
		isKnown := slices.ContainsFunc(known, func(x backend) bool { return x.name == l.Backend })
		if l.Available && !isKnown && !slices.Contains(unmeasured, l.Backend) {
			b.backends = append(b.backends, backend{name: l.Backend, gap: 50 * time.Millisecond, spaced: 100, lasting: 10 * time.Second, warm: 10})
		}
	}
}

var errNoBackend = errors.New("no backend that isolates works here; bin/worker --list-backends says why")

// fastest is the backend that curves are taken of.
func (b *bencher) fastest() (backend, error) {
	if len(b.backends) == 0 {
		return backend{}, errNoBackend
	}
	return b.backends[0], nil
}

// curved are the backends whose curves are taken. A third would say nothing
// that its two slots do not.
func (b *bencher) curved() []backend {
	most := 2
	if b.quick {
		most = 1
	}
	return b.backends[:min(most, len(b.backends))]
}
