package worker_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"airlock/job"
	"airlock/worker"
)

// world is a ledger and a queue as a reconciler sees them. mu guards all of it.
type world struct {
	mu       sync.Mutex
	due      []job.Republish
	overdue  int
	untold   []*job.Result
	waiting  map[string]int // jobs the ledger has, by lane
	stock    map[string]int // jobs the queue has
	served   map[string]bool
	stuck    []string
	garbage  int
	refuse   map[job.ID]error
	took     time.Duration // by a publish that is refused
	rebuilt  map[string]int
	buried   map[string]int
	sent     []job.ID
	noStock  error
	inspects int
	// history is what Retire answers, in turn, and retires counts its calls.
	history []job.Retired
	retires int
	// passing: what the queue lacks it has every third time.
	passing bool
}

func (w *world) lock() func() { w.mu.Lock(); return w.mu.Unlock }

func (w *world) TakeDue(_ context.Context, limit int) ([]job.Republish, error) {
	defer w.lock()()
	n := min(limit, len(w.due))
	due := w.due[:n]
	w.due = w.due[n:]
	return due, nil
}

func (w *world) Republished(context.Context, job.ID, int) error { return nil }

func (w *world) ExpireOverdue(context.Context, int) (int, error) {
	defer w.lock()()
	n := w.overdue
	w.overdue = 0
	return n, nil
}

func (w *world) Unannounced(context.Context, time.Duration, int) ([]*job.Result, error) {
	defer w.lock()()
	untold := w.untold
	w.untold = nil
	return untold, nil
}

func (w *world) Announced(context.Context, job.ID, time.Duration) error { return nil }
func (w *world) Announce(context.Context, *job.Result) error            { return nil }
func (w *world) EnsurePartitions(context.Context, time.Time) error      { return nil }
func (w *world) Sweep(context.Context) (int, error) {
	defer w.lock()()
	n := w.garbage
	w.garbage = 0
	return n, nil
}
func (w *world) Void(_ context.Context, queued []job.Queued) ([]bool, error) {
	return make([]bool, len(queued)), nil
}
func (w *world) Unload(ctx context.Context, lane string, void func(context.Context, []job.Queued) ([]bool, error)) (int, error) {
	if void, err := void(ctx, make([]job.Queued, 2)); len(void) != 2 || err != nil {
		return 0, fmt.Errorf("asked for 2: %v, %w", void, err)
	}
	defer w.lock()()
	n := w.stock[lane] - w.waiting[lane]
	w.stock[lane] = w.waiting[lane]
	return n, nil
}
func (w *world) Retire(_ context.Context, keep time.Duration) (job.Retired, error) {
	defer w.lock()()
	if keep != 90*24*time.Hour {
		return job.Retired{}, fmt.Errorf("asked to keep %s", keep)
	}
	w.retires++
	if len(w.history) == 0 {
		return job.Retired{}, nil
	}
	done := w.history[0]
	w.history = w.history[1:]
	return done, nil
}
func (w *world) Served(lane string) bool { defer w.lock()(); return w.served[lane] }
func (w *world) Mend(context.Context) ([]string, error) {
	defer w.lock()()
	s := w.stuck
	w.stuck = nil
	return s, nil
}
func (w *world) Waiting(context.Context, time.Duration) (map[string]int, error) {
	defer w.lock()()
	return maps.Clone(w.waiting), nil
}

func (w *world) Stock(context.Context) (map[string]int, error) {
	defer w.lock()()
	if w.inspects++; w.passing && w.inspects%3 == 0 {
		return w.waiting, w.noStock
	}
	return maps.Clone(w.stock), w.noStock
}

func (w *world) RebuildLane(_ context.Context, lane string, _ time.Duration, limit int) (int, error) {
	defer w.lock()()
	n := min(limit, w.waiting[lane]-w.rebuilt[lane])
	w.rebuilt[lane] += n
	return n, nil
}

func (w *world) BuryUnplaceable(_ context.Context, lane string, waited time.Duration, _ int) (int, error) {
	defer w.lock()()
	n := w.waiting[lane]
	w.buried[fmt.Sprintf("%s after %s", lane, waited)] += n
	w.waiting[lane] = 0
	return n, nil
}

func (w *world) Republish(_ context.Context, r job.Republish) error {
	w.mu.Lock()
	err, took := w.refuse[r.Job.ID], w.took
	if err == nil {
		w.sent = append(w.sent, r.Job.ID)
	}
	w.mu.Unlock()
	if err != nil {
		time.Sleep(took)
	}
	return err
}

// reconcile runs a reconciler over the world in a bubble of its own time.
func reconcile(t *testing.T, w *world, during func(w *world)) map[string]int64 {
	t.Helper()
	return reconcileTold(t, w, zerolog.New(zerolog.NewTestWriter(t)), during)
}

func reconcileTold(t *testing.T, w *world, log zerolog.Logger, during func(w *world)) map[string]int64 {
	t.Helper()
	w.rebuilt, w.buried = map[string]int{}, map[string]int{}
	var decisions worker.Decisions
	r := &worker.Reconciler{
		Backlog: w, Publisher: w, Results: w, Fleet: w, Decisions: &decisions,
		PlacementDeadline: time.Hour, Retain: 90 * 24 * time.Hour, Log: log,
	}
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() { defer close(over); r.Run(ctx) }()
	during(w)
	cancel()
	<-over
	return decisions.Counts()
}

func republish(reason string, buried bool) job.Republish {
	return job.Republish{Job: &job.Job{ID: job.NewID()}, Generation: 2, Reason: reason, Buried: buried}
}

func TestDecisionsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{
			due:     []job.Republish{republish("retry", false), republish("retry", false), republish("due", false), republish("suspected_poison", true)},
			overdue: 3, untold: []*job.Result{{Job: job.NewID()}}, stuck: []string{"any=normal=a"}, garbage: 4,
		}
		got := reconcile(t, w, func(*world) { time.Sleep(2 * time.Hour) })
		want := map[string]int64{
			"published_retry": 2, "published_due": 1, "buried_suspected_poison": 1, "expired": 3, "announced": 1,
			"consumers_recreated": 1, "rows_swept": 4,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("decisions (-want +got):\n%s", diff)
		}
		if len(w.sent) != 3 {
			t.Errorf("got %d jobs published, want 3: the dead one stays", len(w.sent))
		}
	})
}

// TestOneRefusedJobDelaysNoOther: unless the queue is away, in which case a
// round ends at once.
func TestOneRefusedJobDelaysNoOther(t *testing.T) {
	for _, tc := range []struct {
		name string
		took time.Duration
		want int
	}{{"its lane is full", 0, 2}, {"the queue is away", 30 * time.Second, 0}} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &world{due: []job.Republish{republish("retry", false), republish("retry", false), republish("due", false)}, took: tc.took}
				w.refuse = map[job.ID]error{w.due[0].Job.ID: errors.New("the tenant has too many jobs")}
				reconcile(t, w, func(*world) { time.Sleep(time.Minute) })
				if len(w.sent) != tc.want {
					t.Errorf("got %d published behind it, want %d", len(w.sent), tc.want)
				}
			})
		})
	}
}

// TestABacklogIsPublishedWithoutPause: a rebuilt queue of many is not let wait
// between batches.
func TestABacklogIsPublishedWithoutPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		for range 5000 {
			w.due = append(w.due, republish("unconfirmed", false))
		}
		reconcile(t, w, func(w *world) { time.Sleep(time.Second) })
		if len(w.sent) != 5000 {
			t.Errorf("got %d of 5000 published within a second", len(w.sent))
		}
	})
}

func TestALostQueueIsRebuilt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{
			waiting: map[string]int{"any": 1200, "docker": 3, "wasm": 2}, stock: map[string]int{"docker": 3, "wasm": 9},
			served: map[string]bool{"any": true, "docker": true, "wasm": true}, passing: true,
		}
		got := reconcile(t, w, func(w *world) {
			// A lack that passes is none.
			time.Sleep(2 * time.Minute)
			if len(w.rebuilt) > 0 {
				t.Errorf("rebuilt %v though jobs were only on their way", w.rebuilt)
			}
			w.mu.Lock()
			w.noStock, w.passing = errors.New("stream not found"), false
			w.mu.Unlock()
			time.Sleep(time.Minute)
			if len(w.rebuilt) > 0 {
				t.Errorf("rebuilt %v while the queue could not be counted", w.rebuilt)
			}
			w.mu.Lock()
			w.noStock = nil
			w.mu.Unlock()
			time.Sleep(16 * time.Second)
		})
		if diff := cmp.Diff(map[string]int{"any": 1200}, w.rebuilt); diff != "" {
			t.Errorf("rebuilt (-want +got):\n%s", diff)
		}
		if got["rebuilt"] != 1200 {
			t.Errorf("decisions: got %v, want 1200 rebuilt", got)
		}
	})
}

func TestUnplaceableJobsAreBuried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{
			waiting: map[string]int{"any": 5, "docker": 3, "wasm": 2}, stock: map[string]int{"any": 5, "docker": 3, "wasm": 2},
			served: map[string]bool{"any": true, "wasm": true},
		}
		got := reconcile(t, w, func(w *world) {
			// wasm's worker comes and goes, never for five minutes.
			for range 10 {
				time.Sleep(29 * time.Second)
				w.mu.Lock()
				w.served["wasm"] = !w.served["wasm"]
				w.mu.Unlock()
			}
			func() {
				defer w.lock()()
				if len(w.buried) > 0 {
					t.Errorf("buried %v before five minutes had passed", w.buried)
				}
			}()
			time.Sleep(time.Minute)
		})
		if diff := cmp.Diff(map[string]int{"docker after 1h0m0s": 3}, w.buried); diff != "" {
			t.Errorf("buried (-want +got):\n%s", diff)
		}
		if got["buried_unplaceable"] != 3 {
			t.Errorf("decisions: got %v, want 3 buried_unplaceable", got)
		}
	})
}

func TestOldHistoryIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		month := func(name, kept string) job.RetiredMonth { return job.RetiredMonth{Name: name, Kept: kept, Jobs: 10} }
		w := &world{history: []job.Retired{
			{Months: []job.RetiredMonth{month("2026-01", ""), month("2026-02", job.KeptBusy), month("2026-03", job.KeptOpen)}, Strays: 3},
			{Months: []job.RetiredMonth{month("2026-02", ""), month("2026-03", job.KeptOpen)}},
		}}
		got := reconcile(t, w, func(w *world) {
			looks := func() int { defer w.lock()(); return w.retires }
			time.Sleep(30 * time.Second)
			if looks() != 1 {
				t.Errorf("got %d looks at first, want 1", looks())
			}
			time.Sleep(time.Minute) // a month was in use: it is tried again soon
			if looks() != 2 {
				t.Errorf("got %d looks after a minute, want 2", looks())
			}
			time.Sleep(150 * time.Minute)
		})
		if diff := cmp.Diff(map[string]int64{"months_dropped": 2, "jobs_retired": 23}, got); diff != "" {
			t.Errorf("decisions (-want +got):\n%s", diff)
		}
		if w.retires != 4 {
			t.Errorf("got %d looks in two and a half hours more, want 2 more than 2", w.retires)
		}
	})
}

func TestMessagesOfEndedJobsAreTakenOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{
			waiting: map[string]int{"any": 5, "docker": 3, "wasm": 2}, stock: map[string]int{"any": 7, "docker": 10, "wasm": 2},
			served: map[string]bool{"any": true},
		}
		got := reconcile(t, w, func(w *world) {
			left := func(lane string) int { defer w.lock()(); return w.stock[lane] }
			time.Sleep(6 * time.Second)
			if left("docker") != 10 {
				t.Error("taken out at once, though jobs may be on their way into the ledger")
			}
			time.Sleep(30 * time.Second)
			if left("docker") != 3 || left("any") != 7 {
				t.Errorf("got %d left in docker and %d in any, want 3, and 7: a worker serves it", left("docker"), left("any"))
			}
		})
		if diff := cmp.Diff(map[string]int64{"messages_removed": 7}, got); diff != "" {
			t.Errorf("decisions (-want +got):\n%s", diff)
		}
	})
}
