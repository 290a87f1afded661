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

// MaxLanes bounds how many different requirements may be in use. Each costs
// the server three consumers, of which a stream has a thousand by default, and
// submitters choose requirements freely.
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
	doc, err := json.Marshal(r, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("encode requirement: %w", err)
	}
	err = q.once(ctx, func(ctx context.Context) error {
		_, err := q.lanesKV.Put(ctx, laneKey(lane), doc)
		return err
	})
	if err != nil {
		return fmt.Errorf("register lane %s: %w", lane, err)
	}
	q.lanes.put(laneKey(lane), r)
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
	stream, err := q.js.Stream(ctx, streamJobs)
	if err != nil {
		return nil, fmt.Errorf("open stream %s: %w", streamJobs, err)
	}
	stored, err := storedPerLane(ctx, stream)
	if err != nil {
		return nil, err
	}
	delivered, err := deliveredPerConsumer(ctx, stream)
	if err != nil {
		return nil, err
	}
	workers, err := q.Workers(ctx)
	if err != nil {
		return nil, err
	}
	var lanes []Lane
	for _, r := range q.lanes.all() {
		lane := Lane{Name: r.Lane(), Requirement: r, Depth: map[job.Priority]Depth{}, Workers: serving(workers, r)}
		for _, priority := range job.Priorities() {
			name := consumerName(lane.Name, priority)
			running := min(delivered[name], stored[name])
			lane.Depth[priority] = Depth{Waiting: stored[name] - running, Running: running}
		}
		lanes = append(lanes, lane)
	}
	slices.SortFunc(lanes, func(a, b Lane) int { return strings.Compare(a.Name, b.Name) })
	return lanes, nil
}

// storedPerLane counts messages by the name of the consumer they are for. It
// looks at subjects, since a lane that nobody serves has no consumer.
func storedPerLane(ctx context.Context, stream jetstream.Stream) (map[string]int, error) {
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(prefixJobs+".>"))
	if err != nil {
		return nil, fmt.Errorf("count jobs: %w", err)
	}
	stored := map[string]int{}
	for subject, count := range info.State.Subjects {
		if p, err := parsePlace(subject, prefixJobs); err == nil {
			stored[consumerName(p.lane, p.priority)] += int(count)
		}
	}
	return stored, nil
}

func deliveredPerConsumer(ctx context.Context, stream jetstream.Stream) (map[string]int, error) {
	delivered := map[string]int{}
	list := stream.ListConsumers(ctx)
	for info := range list.Info() {
		delivered[info.Name] = info.NumAckPending
	}
	if err := list.Err(); err != nil && !errors.Is(err, jetstream.ErrEndOfData) {
		return nil, fmt.Errorf("list consumers: %w", err)
	}
	return delivered, nil
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
