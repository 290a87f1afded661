package queue_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"airlock/job"
	"airlock/queue"
	"airlock/queue/natstest"
)

// ledger is a sink that fails as often as it is told to.
type ledger struct {
	mu       sync.Mutex
	failures int
	rows     map[string]job.Queued
	batches  []int
}

func (l *ledger) sink(_ context.Context, batch []job.Queued) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failures > 0 {
		l.failures--
		return errors.New("database is away")
	}
	l.batches = append(l.batches, len(batch))
	for _, row := range batch {
		l.rows[row.Job.ID.String()] = row
	}
	return nil
}

func (l *ledger) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.rows)
}

func TestRecordsEveryJobInBatches(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{})
	const jobs = 1400
	var submitting sync.WaitGroup
	var ids sync.Map
	for range 7 {
		submitting.Go(func() {
			for range jobs / 7 {
				ids.Store(submit(t, q, newJob(t, func(j *job.Job) { j.Code = "x = 1 # a & b <c>" })).Job.String(), true)
			}
		})
	}
	submitting.Wait()
	big := submit(t, q, newJob(t, func(j *job.Job) { j.Code = strings.Repeat("#", 1<<20) }))
	submit(t, q, newJob(t, nil))
	publishRaw(t, srv.Connect(), "jobs.any.normal.default", "no json", nil)
	book := &ledger{failures: 3, rows: map[string]job.Queued{}}
	stop := background(t, func(ctx context.Context) error { return q.Record(ctx, book.sink) })
	defer stop()
	waitFor(t, "records of all jobs", func() bool { return book.count() == jobs+2 })
	waitFor(t, "empty stream", func() bool { return srv.Messages("QUEUED") == 0 })

	book.mu.Lock()
	defer book.mu.Unlock()
	for _, size := range book.batches {
		if size > 1024 {
			t.Errorf("got a batch of %d, want at most 1024", size)
		}
	}
	if len(book.batches) > 10 {
		t.Errorf("got %d batches for %d jobs, want few", len(book.batches), jobs)
	}
	ids.Range(func(id, _ any) bool {
		row, ok := book.rows[id.(string)]
		if !ok {
			t.Errorf("job %s was not recorded", id)
			return true
		}
		want, err := row.Job.Encode()
		must(t, err)
		if string(row.Spec) != string(want) || row.Generation != 1 || row.At.IsZero() {
			t.Errorf("record of %s has spec %.200s generation %d at %s", id, row.Spec, row.Generation, row.At)
		}
		return true
	})
	if row := book.rows[big.Job.String()]; len(row.Spec) < 1<<20 {
		t.Errorf("the large job's spec has %d bytes, want all", len(row.Spec))
	}
}

func TestRecordLosesNothingWhenItStops(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{})
	const jobs = 50
	for range jobs {
		submit(t, q, newJob(t, nil))
	}
	failing := &ledger{failures: 1 << 30, rows: map[string]job.Queued{}}
	stop := background(t, func(ctx context.Context) error { return q.Record(ctx, failing.sink) })
	waitFor(t, "a failure", func() bool {
		failing.mu.Lock()
		defer failing.mu.Unlock()
		return failing.failures < 1<<30
	})
	stop()
	book := &ledger{rows: map[string]job.Queued{}}
	stop = background(t, func(ctx context.Context) error { return q.Record(ctx, book.sink) })
	defer stop()
	waitFor(t, "records of all jobs", func() bool { return book.count() == jobs })
	waitFor(t, "empty stream", func() bool { return srv.Messages("QUEUED") == 0 })
}

// TestRecordLeavesOutWhatHasEnded: a job that was acknowledged here is in the
// database to its end.
func TestRecordLeavesOutWhatHasEnded(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	q := open(t, srv, queue.Config{})
	const jobs = 20
	for range jobs {
		submit(t, q, newJob(t, nil))
	}
	w := work(t, q, 2, nil, offer("bubblewrap"))
	w.wait(jobs)
	waitEmpty(t, q)
	w.end()
	waiting := submit(t, q, newJob(t, nil))

	book := &ledger{rows: map[string]job.Queued{}}
	stop := background(t, func(ctx context.Context) error { return q.Record(ctx, book.sink) })
	defer stop()
	waitFor(t, "empty stream", func() bool { return srv.Messages("QUEUED") == 0 })
	book.mu.Lock()
	defer book.mu.Unlock()
	if _, ok := book.rows[waiting.Job.String()]; len(book.rows) != 1 || !ok {
		t.Errorf("got %d records, of the waiting job %t; want that one only", len(book.rows), ok)
	}
}
