package doctor

import (
	"context"
	"slices"

	"airlock/job"
)

// backendProbes repeats why backends are not offered. A host on which nothing
// isolates is worse than one where something is missing.
func backendProbes(_ context.Context, h Host) []Finding {
	if len(h.Backends) == 0 {
		return unchecked("no backend was probed")
	}
	var all []Finding
	if !slices.ContainsFunc(h.Backends, func(b Backend) bool {
		return b.Reason == "" && b.Isolation.AtLeast(job.IsolationStrong)
	}) {
		all = found(Warning, "no backend here isolates strongly, so that no usual job runs", "see to one of those below")
	}
	for _, b := range h.Backends {
		if b.Reason != "" {
			all = append(all, found(Info, b.Name+" is not offered", job.Printable(b.Reason, 500))...)
		}
	}
	return all
}
