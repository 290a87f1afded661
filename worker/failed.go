package worker

import (
	"sync"

	"airlock/job"
)

// maxRemembered bounds for how many jobs a worker knows which backends failed
// them. Failures come in swarms, and their retries within minutes.
const maxRemembered = 1024

// failures remembers which backends failed which jobs, so that another is
// tried first. Its methods may be called from several goroutines at once.
type failures struct {
	mu sync.Mutex // guards all below
	// by lists the backends of each job, last the latest, and order the jobs,
	// oldest first.
	by    map[job.ID][]string
	order []job.ID
}

// note remembers that the backend failed the job.
func (f *failures) note(id job.ID, backend string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.by == nil {
		f.by = map[job.ID][]string{}
	}
	before, known := f.by[id]
	names := make([]string, 0, len(before)+1) // of may have given out the other
	for _, name := range before {
		if name != backend {
			names = append(names, name)
		}
	}
	f.by[id] = append(names, backend)
	if known {
		return
	}
	f.order = append(f.order, id)
	if len(f.order) > maxRemembered {
		delete(f.by, f.order[0])
		f.order = f.order[1:]
	}
}

// of lists the backends that failed the job, last the latest.
func (f *failures) of(id job.ID) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.by[id]
}
