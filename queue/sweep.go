package queue

import "airlock/job"

// weights say how often each priority is served, in the order of
// job.Priorities, when all of them have jobs: 8:4:1, so that low is served
// once in thirteen.
var weights = [...]int{8, 4, 1}

// eager says which priorities may have jobs.
type eager [len(weights)]bool

// sweep decides which priority is served next. Over any run in which the same
// priorities have jobs each gets its exact share, spread evenly: smooth
// weighted round robin. It is not safe for several goroutines.
type sweep struct {
	credit [len(weights)]int
}

// next returns the priority to try, or false when none may have jobs.
func (s *sweep) next(ready eager) (priority int, ok bool) {
	for p := range weights {
		if ready[p] && (!ok || s.credit[p]+weights[p] > s.credit[priority]+weights[priority]) {
			priority, ok = p, true
		}
	}
	return priority, ok
}

// served charges a priority for a job that was really found, so that a look
// into an empty lane costs it nothing.
func (s *sweep) served(priority int, ready eager) {
	total := 0
	for p := range weights {
		if ready[p] {
			s.credit[p] += weights[p]
			total += weights[p]
		}
	}
	s.credit[priority] -= total
}

func priorityIndex(p job.Priority) int {
	for i, known := range job.Priorities() {
		if known == p {
			return i
		}
	}
	return -1
}
