package docker_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"airlock/backends"
	"airlock/backends/docker"
	"airlock/job"
)

// TestVariants: a runtime that starts guests is offered under its own name and
// level, and one that does not says why, and what could be done.
func TestVariants(t *testing.T) {
	t.Parallel()
	open(t, docker.Config{})
	info, err := engineClient(t).Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	levels := map[string]job.Isolation{"runsc": job.IsolationVM, "kata": job.IsolationVM, "crun": job.IsolationStrong}
	reasons := []string{"runtimeArgs --network=none", "control groups of one version", "cannot watch over it", "must have its own"}
	for _, runtime := range append(docker.Variants(), "runc") {
		t.Run(runtime, func(t *testing.T) {
			t.Parallel()
			b := docker.New(docker.Config{Runtime: runtime})
			defer b.Close()
			can, err := b.Probe(t.Context())
			_, listed := info.Runtimes[runtime]
			switch {
			case err == nil:
				level := levels[runtime]
				if runtime == "runc" {
					level = job.IsolationStrong
				}
				if can.Backend != "docker+"+runtime || can.Offer.Isolation != level || can.Isolated.Runtime != runtime {
					t.Errorf("got %+v, want docker+%s at %s", can, runtime, level)
				}
			case !errors.Is(err, backends.ErrUnavailable):
				t.Errorf("got error %v, want one that wraps ErrUnavailable", err)
			case !listed && !strings.Contains(err.Error(), "has no runtime "+runtime):
				t.Errorf("got error %v, want one that says that the engine lacks it", err)
			case listed && !slices.ContainsFunc(reasons, func(r string) bool { return strings.Contains(err.Error(), r) }):
				t.Errorf("got error %v, want one with what to do", err)
			}
			if runtime == "runc" && err != nil {
				t.Errorf("got error %v for the runtime that all engines have", err)
			}
		})
	}
}

// TestOwnKernel: a level of vm needs a kernel that is not the engine's.
func TestOwnKernel(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		runtime, guests, engines string
		holds                    bool
	}{
		{"runsc", "4.4.0", "6.1.0", true},
		{"runsc", "6.1.0", "6.1.0", false},
		{"kata", "", "6.1.0", false},
		{"kata", "6.1.0", "6.1.0", false},
		{"crun", "6.1.0", "6.1.0", true},
		{"", "6.1.0", "6.1.0", true},
	} {
		if err := docker.CheckKernel(tt.runtime, tt.guests, tt.engines); (err == nil) != tt.holds {
			t.Errorf("%s with kernel %q under %q: got error %v, want it to hold: %v", tt.runtime, tt.guests, tt.engines, err, tt.holds)
		}
	}
}
