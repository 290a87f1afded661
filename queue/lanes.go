package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go/jetstream"

	"airlock/job"
)

// MaxLanes bounds how many different requirements may be in use. Submitters
// choose them freely, and every worker listens for the jobs of each.
const MaxLanes = 300

// Lane is a lane with what is in it.
type Lane struct {
	Name        string                 `json:"name"`
	Requirement job.Requirement        `json:"requirement"`
	Depth       map[job.Priority]Depth `json:"depth"`
	// Workers are the ids of the live workers that serve the lane.
	Workers []string `json:"workers,omitzero"`
}

// Depth counts the jobs of one lane and priority.
type Depth struct {
	Waiting int `json:"waiting"`
	// Running counts what is delivered and not acknowledged; a job whose
	// worker died is among them until it is delivered again.
	Running int `json:"running"`
}

// announceLane makes the requirement known to workers. A submitter may not
// write where it says what workers do, and asks one of them. Where none is,
// whoever records the job makes the lane known.
func (q *Queue) announceLane(ctx context.Context, tenant string, r job.Requirement) error {
	if !q.attached {
		return q.registerLane(ctx, r)
	}
	if _, known := q.lanes.lookup(laneKey(r.Lane())); known {
		return nil
	}
	err := q.askLane(ctx, tenant, r)
	if err != nil && !errors.Is(err, ErrNoWorker) {
		return fmt.Errorf("register lane %s: %w", r.Lane(), err)
	}
	return nil
}

// registerLane writes the requirement into LANES, also over what is not
// readable there.
func (q *Queue) registerLane(ctx context.Context, r job.Requirement) error {
	lane := r.Lane()
	if !lanePattern.MatchString(lane) {
		return fmt.Errorf("lane %q is no subject token", job.Printable(lane, 80))
	}
	if _, known := q.lanes.lookup(laneKey(lane)); known {
		return nil
	}
	if q.lanes.size() >= MaxLanes {
		return fmt.Errorf("register lane %s: %w (%d)", lane, ErrTooManyLanes, MaxLanes)
	}
	if err := q.writeLane(ctx, r); err != nil {
		return err
	}
	q.lanes.put(laneKey(lane), r)
	return nil
}

func (q *Queue) writeLane(ctx context.Context, r job.Requirement) error {
	doc, err := json.Marshal(r, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("encode requirement: %w", err)
	}
	err = q.once(ctx, func(ctx context.Context) error {
		_, err := q.lanesKV.Put(ctx, laneKey(r.Lane()), doc)
		return err
	})
	if err != nil {
		return fmt.Errorf("register lane %s: %w", r.Lane(), err)
	}
	return nil
}

// decodeLane reads an entry of LANES. A requirement under a name that is not
// its own would lead workers to jobs they cannot run.
func decodeLane(key string, value []byte) (job.Requirement, error) {
	var r job.Requirement
	if err := job.CheckJSON(value); err != nil {
		return r, err
	}
	if err := job.DecodeStrict(value, &r); err != nil {
		return r, err
	}
	if lane := r.Lane(); laneKey(lane) != key || !lanePattern.MatchString(lane) {
		return r, fmt.Errorf("requirement of lane %s lies under %q", r.Lane(), job.Printable(key, 80))
	}
	return r, nil
}

// Lanes lists the lanes with their depths, by name.
func (q *Queue) Lanes(ctx context.Context) ([]Lane, error) {
	if q.attached {
		return q.askLanes(ctx)
	}
	stored, err := q.stored(ctx)
	if err != nil {
		return nil, err
	}
	delivered, err := delivered(ctx, q.jobs)
	if err != nil {
		return nil, err
	}
	workers, err := q.Workers(ctx)
	if err != nil {
		return nil, err
	}
	depths := map[depthOf]Depth{}
	for p, count := range stored {
		of, running := depthOf{p.lane, p.priority}, min(delivered[p], count)
		depths[of] = Depth{Waiting: depths[of].Waiting + count - running, Running: depths[of].Running + running}
	}
	var lanes []Lane
	for _, r := range q.lanes.all() {
		lane := Lane{Name: r.Lane(), Requirement: r, Depth: map[job.Priority]Depth{}, Workers: serving(workers, r)}
		for _, priority := range job.Priorities() {
			lane.Depth[priority] = depths[depthOf{lane.Name, priority}]
		}
		lanes = append(lanes, lane)
	}
	slices.SortFunc(lanes, func(a, b Lane) int { return strings.Compare(a.Name, b.Name) })
	return lanes, nil
}

// depthOf is what depths are told of: a place of whatever tenant.
type depthOf struct {
	lane     string
	priority job.Priority
}

// delivered counts by place what workers have and did not acknowledge.
func delivered(ctx context.Context, stream jetstream.Stream) (map[place]int, error) {
	counts := map[place]int{}
	err := eachConsumer(ctx, stream, func(info *jetstream.ConsumerInfo) {
		if p, ok := storedPlace(info.Config.FilterSubject); ok {
			counts[p] = info.NumAckPending
		}
	})
	return counts, err
}

func serving(workers []Presence, r job.Requirement) []string {
	var ids []string
	for _, w := range workers {
		if !w.Draining && slices.ContainsFunc(w.Offers, func(o job.Offer) bool { return r.Unmet(o) == "" }) {
			ids = append(ids, w.ID)
		}
	}
	return ids
}
