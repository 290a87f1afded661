package all_test

import (
	"errors"
	"slices"
	"testing"

	"airlock/backends"
	"airlock/backends/all"
	"airlock/job"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
)

func TestAll(t *testing.T) {
	t.Parallel()
	var names []string
	for _, n := range all.All(all.Config{AllowNoIsolation: true, Log: zerolog.Nop()}) {
		names = append(names, n.Name)
		can, err := n.Backend.Probe(t.Context())
		switch {
		case err != nil && !errors.Is(err, backends.ErrUnavailable):
			t.Errorf("%s: got error %v, want one that wraps ErrUnavailable", n.Name, err)
		case err == nil && can.Backend != n.Name:
			t.Errorf("%s: offers itself as %s", n.Name, can.Backend)
		case n.Name == "docker+crun": // the wall is docker's
			if n.Auto {
				t.Error("docker+crun is offered without being asked for")
			}
		case err == nil && n.Auto != can.Offer.Isolation.AtLeast(job.IsolationPartial):
			t.Errorf("%s: auto is %v at isolation %s", n.Name, n.Auto, can.Offer.Isolation)
		}
		if err := n.Backend.Close(); err != nil {
			t.Errorf("%s: close: %v", n.Name, err)
		}
	}
	if diff := cmp.Diff([]string{"forkserver", "bubblewrap", "docker", "docker+runsc", "docker+kata", "docker+crun", "wasm", "local", "fake"}, names); diff != "" {
		t.Errorf("backends (-want +got):\n%s", diff)
	}
}

// TestLocalIsRefused: a backend that isolates nothing is not to be had without
// being asked for in so many words.
func TestLocalIsRefused(t *testing.T) {
	t.Parallel()
	known := all.All(all.Config{Log: zerolog.Nop()})
	at := slices.IndexFunc(known, func(n all.Named) bool { return n.Name == "local" })
	_, err := known[at].Backend.Probe(t.Context())
	if !errors.Is(err, backends.ErrUnavailable) {
		t.Errorf("got error %v, want one that wraps ErrUnavailable", err)
	}
}
