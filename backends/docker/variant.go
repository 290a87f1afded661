package docker

import (
	"fmt"
	"strings"

	"airlock/job"
)

// Variants are the runtimes that package all offers beside the engine's
// default, each as a backend of its own name.
func Variants() []string { return []string{"runsc", "kata", "crun"} }

// nameOf is the name of the backend with that runtime.
func nameOf(runtime string) string {
	if runtime == "" {
		return Name
	}
	return Name + "+" + runtime
}

// Name is the backend's in jobs and results: Name, or Name+runtime for a
// variant.
func (b *Backend) Name() string { return b.name }

// Level is how strong the backend's wall is, where it probes well.
func (b *Backend) Level() job.Isolation { return b.level }

// levelOf is how strong its wall is. A probe sees whether the kernel is really
// another.
func levelOf(runtime string) job.Isolation {
	if runtime == "runsc" || strings.HasPrefix(runtime, "kata") {
		return job.IsolationVM
	}
	return job.IsolationStrong
}

// checkKernel sees that a guest that has run was where it should: what the
// guest's kernel said of itself is compared with the engine's.
func (g *guest) checkKernel() error {
	if g.backend.level != job.IsolationVM {
		return nil
	}
	if own := g.greeting.kernel; own == "" || own == g.facts.kernel {
		return fmt.Errorf("the guest's kernel is %q and the engine's %q: with the runtime %s it must have its own",
			own, g.facts.kernel, g.facts.runtime)
	}
	return nil
}
