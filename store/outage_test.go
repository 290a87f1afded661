package store_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"airlock/job"
	"airlock/store"
	"airlock/store/storetest"
)

// TestRestartMidway restarts Postgres under 16 workers that repeat what fails,
// and counts what came of it: every job has exactly one result.
func TestRestartMidway(t *testing.T) {
	t.Parallel()
	pg := storetest.Server(t)
	if err := store.Migrate(t.Context(), pg.URL(), storetest.Log(t)); err != nil {
		t.Fatal(err)
	}
	f := openOn(t, pg.URL())
	const jobs = 400
	var next, unreachable atomic.Int64
	var working sync.WaitGroup
	for range 16 {
		working.Go(func() {
			for next.Add(1) <= jobs {
				unreachable.Add(workThrough(t, f, newJob(t)))
			}
		})
	}
	for restart := range 2 {
		eventually(t, "some jobs are done", func() bool { return next.Load() > int64(100*(restart+1)) })
		if err := pg.Restart(t.Context()); err != nil {
			t.Fatalf("restart: %v", err)
		}
	}
	working.Wait()
	after := openOn(t, pg.URL())
	want(t, "finished", value[int](after, `SELECT count(*) FROM jobs WHERE state = 'finished'`), jobs)
	want(t, "results", value[int](after, `SELECT count(*) FROM attempts WHERE outcome = 'finished'`), jobs)
	t.Logf("%d answers were ErrUnreachable", unreachable.Load())
}

// workThrough takes one job to its end and returns how often the database was
// unreachable. A claim whose answer was lost is waited out by hand.
func workThrough(t *testing.T, f *fixture, j *job.Job) (unreachable int64) {
	repeat := func(act func() error) {
		deadline := time.Now().Add(time.Minute)
		for err := act(); err != nil; err = act() {
			if !errors.Is(err, store.ErrUnreachable) || time.Now().After(deadline) {
				t.Errorf("got %v, want nil or %v", err, store.ErrUnreachable)
				return
			}
			unreachable++
			time.Sleep(20 * time.Millisecond)
		}
	}
	a := &job.Attempt{Job: j, Worker: "w", Backend: "fake"}
	repeat(func() error {
		got, err := f.Claim(t.Context(), job.ClaimRequest{Job: j, Generation: 1, Worker: "w", Backend: "fake"})
		a.Number = got.Attempt
		if err == nil && got.Verdict == job.Held { // by the claim before, whose answer was lost
			a.Number = 1
		}
		return err
	})
	repeat(func() error { return f.CallStarted(t.Context(), a, callOf(a, 1)) })
	repeat(func() error { return f.Finish(t.Context(), a, resultOf(a, job.StatusOK), 0) })
	repeat(func() error { return f.Announced(t.Context(), j.ID, 0) })
	return unreachable
}

func TestStoppedPostgres(t *testing.T) {
	t.Parallel()
	pg := storetest.Server(t)
	if err := store.Migrate(t.Context(), pg.URL(), storetest.Log(t)); err != nil {
		t.Fatal(err)
	}
	f := openOn(t, pg.URL())
	a := f.claim(newJob(t), 1, "w")
	if err := pg.Stop(); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"claim":     second(f.Claim(t.Context(), job.ClaimRequest{Job: newJob(t), Generation: 1, Worker: "w"})),
		"finish":    f.Finish(t.Context(), a, resultOf(a, job.StatusOK), 0),
		"call":      f.CallStarted(t.Context(), a, callOf(a, 1)),
		"heartbeat": second(f.Heartbeat(t.Context(), "w", []job.Holding{{Job: a.Job.ID, Attempt: 1}})),
		"history":   second(f.History(t.Context(), "acme", job.Filter{})),
		"recording": f.RecordQueued(t.Context(), []job.Queued{queued(t, newJob(t))}),
		"leading":   second(f.Lead(t.Context())),
	} {
		wantError(t, name, err, store.ErrUnreachable)
	}
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := store.Open(short, store.Config{URL: pg.URL(), Log: storetest.Log(t)}); !errors.Is(err, store.ErrUnreachable) {
		t.Errorf("open: got %v, want %v", err, store.ErrUnreachable)
	}
	// Opened before the server is there, a store waits for it.
	opened := make(chan error, 1)
	go func() {
		s, err := store.Open(t.Context(), store.Config{URL: pg.URL(), Log: storetest.Log(t)})
		if err == nil {
			s.Close()
		}
		opened <- err
	}()
	if err := pg.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-opened; err != nil {
		t.Errorf("open while postgres starts: %v", err)
	}
	f.finish(a, resultOf(a, job.StatusOK))
}

func TestWrongPasswordEndsOpen(t *testing.T) {
	t.Parallel()
	pg := storetest.Server(t)
	_, err := store.Open(t.Context(), store.Config{URL: withPassword(t, pg.URL(), "wrong"), Log: storetest.Log(t)})
	if err == nil || errors.Is(err, store.ErrUnreachable) {
		t.Errorf("open with a wrong password: got %v, want a refusal", err)
	}
}

func TestCallerLeavesBeforeItsWrite(t *testing.T) {
	t.Parallel()
	f := open(t)
	blocker := f.claim(newJob(t), 1, "w")
	waiting := f.claim(newJob(t), 1, "w")
	release := f.lockJob(blocker.Job.ID)
	first := make(chan error, 1)
	leaving, leave := context.WithCancelCause(t.Context())
	go func() { first <- f.Finish(leaving, blocker, resultOf(blocker, job.StatusOK), 0) }()
	f.untilBlocked(1)
	gone := errors.New("gone")
	second := make(chan error, 1)
	go func() { second <- f.Finish(leaving, waiting, resultOf(waiting, job.StatusOK), 0) }()
	leave(gone)
	wantError(t, "caller in the queue", <-second, gone)
	release()
	if err := <-first; err != nil {
		t.Errorf("caller whose write was under way: got %v, want nil", err)
	}
	want(t, "state of the first", f.state(blocker.Job.ID), job.StateFinished)
	want(t, "state of the second", f.state(waiting.Job.ID), job.StateRunning)
}

func TestClosedStore(t *testing.T) {
	t.Parallel()
	f := open(t)
	a := f.claim(newJob(t), 1, "w")
	f.Close()
	wantError(t, "finish after close", f.Finish(t.Context(), a, resultOf(a, job.StatusOK), 0), store.ErrClosed)
	f.Close()
}
