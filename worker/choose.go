package worker

import (
	"errors"
	"fmt"
	"strings"

	"airlock/job"
)

// choose picks the first sandbox that satisfies the job, or says why none
// does.
func (w *Worker) choose(j *job.Job) (*Sandbox, error) {
	var reasons []string
	boxes := w.cfg.Sandboxes.Load()
	if len(boxes) == 0 {
		return nil, errors.New("no backend is available here now")
	}
	for i := range boxes {
		box := &boxes[i]
		why := j.Requires.Unmet(box.Can.Offer)
		if why == "" {
			return box, nil
		}
		reasons = append(reasons, box.Name+": "+why)
	}
	return nil, fmt.Errorf("no backend here fits: %s", strings.Join(reasons, "; "))
}
