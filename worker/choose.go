package worker

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"airlock/job"
)

// choose picks the first sandbox that satisfies the job and has not failed it
// here before, else the one that did so longest ago, or says why none
// satisfies it.
func (w *Worker) choose(j *job.Job) (*Sandbox, error) {
	boxes := w.cfg.Sandboxes.Load()
	if len(boxes) == 0 {
		return nil, errors.New("no backend is available here now")
	}
	failed := w.failures.of(j.ID)
	var reasons []string
	var best *Sandbox
	least := len(failed)
	for i := range boxes {
		box := &boxes[i]
		if why := j.Requires.Unmet(box.Can.Offer); why != "" {
			reasons = append(reasons, box.Name+": "+why)
			continue
		}
		at := slices.Index(failed, box.Name)
		if at < 0 {
			return box, nil
		}
		if at < least {
			best, least = box, at
		}
	}
	if best != nil {
		return best, nil
	}
	return nil, fmt.Errorf("no backend here fits: %s", strings.Join(reasons, "; "))
}
