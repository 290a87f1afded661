package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"airlock/job"
)

// Presence is what a worker shows of itself. It is for placing and for
// looking; who holds a job is decided by leases alone.
type Presence struct {
	// ID is new for each process: hosts reuse their names.
	ID      string    `json:"id"`
	Host    string    `json:"host"`
	Version string    `json:"version,omitzero"`
	Started time.Time `json:"started"`
	Slots   int       `json:"slots"`
	Busy    int       `json:"busy"`
	// Draining: it finishes what it has and takes nothing new.
	Draining bool              `json:"draining,omitzero"`
	Labels   map[string]string `json:"labels,omitzero"`
	Offers   []job.Offer       `json:"offers,omitzero"`
	// Unavailable says of each backend that is not offered why.
	Unavailable map[string]string `json:"unavailable,omitzero"`
	// Max are the largest limits that this worker accepts.
	Max job.Limits `json:"max,omitzero"`
	// Decisions are how often this worker, when it led, decided what: see
	// worker.Decisions.
	Decisions map[string]int64 `json:"decisions,omitzero"`
	// Policy is the digest of the operator's rules for tools, in hex;
	// PolicyProblem says why their file as it is now is not what is in force.
	Policy        string `json:"policy,omitzero"`
	PolicyProblem string `json:"policy_problem,omitzero"`
	// Rates are how many jobs of each lane it was done with per second over
	// the last minute. Advertise sets them.
	Rates map[string]float64 `json:"rates,omitzero"`
}

// Advertise shows a worker until WorkerTTL has passed; a worker calls it again
// every third of that. On a server that has lost its store it sets the queue up
// again, for the database to fill.
func (q *Queue) Advertise(ctx context.Context, p Presence) error {
	if !job.ValidName(p.ID) {
		return fmt.Errorf("advertise: worker id %q is no valid name", job.Printable(p.ID, 80))
	}
	p.Rates = q.meter.rates(time.Now())
	doc, err := json.Marshal(p, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("encode presence: %w", err)
	}
	asked := time.Now()
	_, err = q.workersKV.Put(ctx, p.ID, doc)
	q.answered(asked, err)
	if (errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, nats.ErrNoResponders)) && q.lost(ctx) {
		q.cfg.Log.Warn().Msg("the queue is gone from the server and is set up again")
		lanes := q.lanes.all() // before the watch finds the new bucket empty
		if err = q.setUp(ctx); err == nil {
			_, err = q.workersKV.Put(ctx, p.ID, doc)
		}
		for _, r := range lanes {
			err = errors.Join(err, q.writeLane(ctx, r))
		}
	}
	if err != nil {
		return fmt.Errorf("advertise worker: %w", err)
	}
	return nil
}

// lost reports whether the server has the bucket of workers no more. A cluster
// that elects a leader only does not answer.
func (q *Queue) lost(ctx context.Context) bool {
	err := q.look(ctx, func(ctx context.Context) error {
		_, err := q.js.KeyValue(ctx, bucketWorkers)
		return err
	})
	return errors.Is(err, jetstream.ErrBucketNotFound)
}

// Withdraw takes a worker out of view at once. Withdrawing one that is not
// there is no error.
func (q *Queue) Withdraw(ctx context.Context, id string) error {
	if !job.ValidName(id) {
		return fmt.Errorf("withdraw: worker id %q is no valid name", job.Printable(id, 80))
	}
	if err := q.workersKV.Purge(ctx, id); err != nil {
		return fmt.Errorf("withdraw worker: %w", err)
	}
	return nil
}

// Workers lists the live workers by host and id, as the bucket has them now.
func (q *Queue) Workers(ctx context.Context) ([]Presence, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	watcher, err := q.workersKV.WatchAll(ctx, jetstream.IgnoreDeletes())
	if err != nil {
		return nil, fmt.Errorf("list workers: %w", err)
	}
	defer stopWatcher(watcher)
	var workers []Presence
	for {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("list workers: %w", context.Cause(ctx))
		case entry, ok := <-watcher.Updates():
			if !ok {
				return nil, errors.New("list workers: connection closed")
			}
			if entry == nil {
				slices.SortFunc(workers, compareWorkers)
				return workers, nil
			}
			if seen, err := q.decodeSighting(entry.Key(), entry.Value()); err == nil {
				workers = append(workers, seen.Presence)
			}
		}
	}
}

func compareWorkers(a, b Presence) int {
	if byHost := strings.Compare(a.Host, b.Host); byHost != 0 {
		return byHost
	}
	return strings.Compare(a.ID, b.ID)
}

// sighting is a worker and when it was last heard of, by our clock.
type sighting struct {
	Presence
	at time.Time
}

// decodeSighting reads an entry of WORKERS. It lets pass what a newer worker
// says and we do not know.
func (q *Queue) decodeSighting(key string, value []byte) (sighting, error) {
	seen := sighting{at: time.Now()}
	if err := json.Unmarshal(value, &seen.Presence); err != nil {
		return seen, fmt.Errorf("decode presence: %w", err)
	}
	if seen.ID != key {
		return seen, fmt.Errorf("presence of worker %q lies under %q", job.Printable(seen.ID, 80), job.Printable(key, 80))
	}
	return seen, nil
}

// known reports whether a worker in the cached list is as asked. The age is
// checked here too, in case the watch missed an expiry.
func (q *Queue) known(asked func(w Presence) bool) bool {
	return q.workers.some(func(seen sighting) bool {
		return time.Since(seen.at) < q.cfg.WorkerTTL+markerTTL && asked(seen.Presence)
	})
}
