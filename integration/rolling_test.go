package integration_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// TestARollingRestartLosesAndRepeatsNothing: three workers are replaced one
// after the other, by SIGTERM and with the load on. Every job has its one
// attempt and its one result.
func TestARollingRestartLosesAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	s := startServices(t)
	const workers, jobs = 3, 400
	fleet := make([]*process, workers)
	for i := range fleet {
		fleet[i] = s.worker(t)
	}
	file := filepath.Join(t.TempDir(), "jobs.jsonl")
	if err := os.WriteFile(file, []byte(strings.Repeat(`{"code": "import time; time.sleep(0.2); return 1"}`+"\n", jobs)), 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan said, 1)
	go func() { done <- submit(t, s.env(), "", "batch", file, "--batch", "rolling", "--quiet") }()
	until(t, 60*time.Second, "jobs under way", func() bool { return s.count(t, "state = 'finished'") > 10 })
	for i, old := range fleet {
		if err := old.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		old.awaitEnd(t, 3*time.Minute)
		if old.err != nil {
			t.Errorf("worker %d ended with %v, want a drain to the end:\n%s", i, old.err, old.stderr)
		}
		before := s.count(t, "state = 'finished'")
		if before == jobs {
			t.Logf("the load was over before worker %d was replaced", i)
		}
		s.worker(t)
	}
	got := <-done
	if got.code != 0 || strings.Count(got.stdout, "\n") != jobs {
		t.Errorf("batch: exit code %d with %d results, want 0 with %d\n%.2000s", got.code, strings.Count(got.stdout, "\n"), jobs, got.stderr)
	}
	if n := s.count(t, "state = 'finished' AND status = 'ok' AND failures = 0 AND deaths = 0"); n != jobs {
		t.Errorf("got %d jobs ok with no failure counted, want %d", n, jobs)
	}
	// A claim that a drain overtook is given back before its guest starts.
	if n := s.value(t, "SELECT count(*) FROM attempts WHERE outcome = 'finished'"); n != jobs {
		t.Errorf("got %d attempts that finished, want %d", n, jobs)
	}
	if n := s.value(t, "SELECT count(*) FROM attempts WHERE outcome <> 'finished'"); n != 0 {
		t.Errorf("got %d attempts that did not finish, want none: the grace was long", n)
	}
}

// TestADrainThatIsOutOfTimeCountsNoAttempt: a job that may be tried once only
// outlives three workers that leave before it ends.
func TestADrainThatIsOutOfTimeCountsNoAttempt(t *testing.T) {
	t.Parallel()
	s := startServices(t)
	w := s.worker(t, "--drain-grace", "100ms")
	id := s.submitted(t, "import os, time\nfor _ in range(60): time.sleep(0.1)\nreturn 1", "--wall", "60s", "--max-attempts", "1")
	for n := 1; n <= 2; n++ {
		until(t, time.Minute, fmt.Sprintf("attempt %d", n), func() bool {
			r := s.record(t, id)
			return r != nil && r.State == "running" && r.Attempt == n
		})
		next := s.worker(t, "--drain-grace", "100ms")
		if err := w.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		w.awaitEnd(t, 3*time.Minute)
		w = next
	}
	r := s.await(t, id, 60*time.Second, "finished")
	if r.Status != "ok" || r.Failures != 0 || len(r.Attempts) != 3 || s.ends(t, id) != 1 {
		t.Errorf("got %s after %d attempts, %d failures and %d ends; want ok after 3, 0 and 1", r.Status, len(r.Attempts), r.Failures, s.ends(t, id))
	}
}

// count counts jobs, by SQL.
func (s *services) count(t *testing.T, where string) int {
	t.Helper()
	return s.value(t, "SELECT count(*) FROM jobs WHERE "+where)
}

func (s *services) value(t *testing.T, sql string) (n int) {
	t.Helper()
	db, err := pgx.Connect(context.Background(), s.postgres.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(context.Background())
	if err := db.QueryRow(context.Background(), sql).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
