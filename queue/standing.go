package queue

import (
	"context"
	"fmt"
	"time"

	"airlock/job"
)

// Standing is where a tenant's next job of a lane and priority would stand.
type Standing struct {
	// Ahead is about how many jobs would start before it: the tenant's own,
	// and those of other tenants and priorities that have their turns until
	// then. A job that was submitted is at most so far back.
	Ahead int `json:"ahead"`
	// Jobs is how many jobs the tenant has in the lane and priority, waiting
	// and running, and Quota how many it may have.
	Jobs  int   `json:"jobs"`
	Quota int64 `json:"quota"`
	// Rate is how many jobs of the lane ended per second over the last
	// minute; zero when there were none.
	Rate float64 `json:"rate,omitzero"`
	// Full is how full the queue as a whole is; its Detail is empty.
	Full *FullError `json:"full,omitzero"`
}

// Wait estimates how long the job would wait; false when the lane has not moved
// for a minute, so that nothing can be said.
func (s Standing) Wait() (time.Duration, bool) {
	if s.Ahead == 0 {
		return 0, true
	}
	if s.Rate <= 0 {
		return 0, false
	}
	const longest = 1000 * time.Hour
	return time.Duration(min(float64(s.Ahead)/s.Rate*float64(time.Second), float64(longest))), true
}

// Standing says where the job stands, or would if it were submitted now. It
// need not have an id, but must have been prepared.
func (q *Queue) Standing(ctx context.Context, j *job.Job) (Standing, error) {
	p, err := placeOf(j)
	if err != nil {
		return Standing{}, fmt.Errorf("find standing: %w", err)
	}
	s, err := q.standing(ctx, p)
	if err != nil {
		return Standing{}, fmt.Errorf("find standing: %w", err)
	}
	q.known(func(w Presence) bool {
		s.Rate += w.Rates[p.lane]
		return false // look at all
	})
	return s, nil
}

func (q *Queue) standing(ctx context.Context, p place) (s Standing, err error) {
	if q.attached {
		return s, q.ask(ctx, prefixFleet, p.tenant, fleetStanding, standingQuestion{p.lane, p.priority}, &s)
	}
	stored, err := q.stored(ctx)
	if err != nil {
		return s, err
	}
	full, err := q.fullness(ctx)
	if err != nil {
		return s, err
	}
	running, err := delivered(ctx, q.jobs)
	if err != nil {
		return s, err
	}
	waiting := map[place]int{}
	for at, count := range stored {
		if at.lane == p.lane {
			waiting[at] = max(0, count-running[at])
		}
	}
	return Standing{Ahead: ahead(p, waiting), Jobs: stored[p], Quota: q.cfg.MaxPerTenant, Full: full}, nil
}

// ahead is how many jobs of a lane are served before the last one of a place.
// Until then each tenant of its priority has as many turns as its own, and the
// other priorities have theirs by weight.
func ahead(p place, waiting map[place]int) int {
	own := waiting[p]
	same, others := own, map[job.Priority]int{}
	for at, count := range waiting {
		switch {
		case at == p:
		case at.priority == p.priority:
			same += min(count, own+1)
		default:
			others[at.priority] += count
		}
	}
	sum := same
	for priority, count := range others {
		turns := (same + 1) * weights[priorityIndex(priority)] / weights[priorityIndex(p.priority)]
		sum += min(count, turns)
	}
	return sum
}

type standingQuestion struct {
	Lane     string       `json:"lane"`
	Priority job.Priority `json:"priority"`
}

// answerStanding tells a tenant where its jobs stand.
func (q *Queue) answerStanding(ctx context.Context, tenant string, request []byte) (any, error) {
	var asked standingQuestion
	if err := decodeQuestion(request, &asked); err != nil {
		return nil, err
	}
	p := place{lane: asked.Lane, priority: asked.Priority, tenant: tenant}
	if err := p.check(); err != nil {
		return nil, &RemoteError{Code: CodeBadRequest, Message: err.Error()}
	}
	return q.standing(ctx, p)
}

// QuotaError means that the tenant has as many jobs in the lane and priority as
// it may. It is ErrOverQuota.
type QuotaError struct {
	Tenant   string
	Lane     string
	Priority job.Priority
	// Jobs are waiting and running; Quota is how many may.
	Jobs  int
	Quota int64
}

// Error implements error.
func (e *QuotaError) Error() string {
	return fmt.Sprintf("over quota: tenant %s has %d of at most %d %s jobs in lane %s: wait until some have ended",
		e.Tenant, e.Jobs, e.Quota, e.Priority, e.Lane)
}

// Is makes it ErrOverQuota.
func (e *QuotaError) Is(target error) bool { return target == ErrOverQuota }

// explainQuota gives a refusal its numbers, if they can be had soon.
func (q *Queue) explainQuota(ctx context.Context, j *job.Job, refusal error) error {
	ctx, cancel := context.WithTimeout(ctx, explainWithin)
	defer cancel()
	s, err := q.Standing(ctx, j)
	if err != nil || s.Quota <= 0 {
		return refusal
	}
	return &QuotaError{Tenant: j.Tenant, Lane: j.Requires.Lane(), Priority: j.Priority, Jobs: s.Jobs, Quota: s.Quota}
}

// explainWithin bounds what an explanation may cost.
const explainWithin = 2 * time.Second
