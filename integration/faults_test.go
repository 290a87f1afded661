package integration_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/jackc/pgx/v5"
	"github.com/rs/zerolog"

	"airlock/job"
	"airlock/standalone"
)

// services are a NATS and a Postgres of a test's own, with workers beside
// them as processes of their own.
type services struct {
	nats       *standalone.NATS
	natsConfig standalone.NATSConfig
	postgres   *standalone.Postgres
}

func startServices(t *testing.T) *services {
	t.Helper()
	require(t, "bubblewrap", "bwrap")
	require(t, "postgres", "initdb")
	binary(t, "worker")
	dir := openDir(t)
	log := zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s := &services{natsConfig: standalone.NATSConfig{Listen: "127.0.0.1:0", Dir: filepath.Join(dir, "nats"), Log: log}}
	var err error
	if s.nats, err = standalone.StartNATS(ctx, s.natsConfig); err != nil {
		t.Fatal(err)
	}
	s.natsConfig.Listen = strings.TrimPrefix(s.nats.URL(), "nats://")
	t.Cleanup(func() { s.nats.Close() })
	if s.postgres, err = standalone.StartPostgres(ctx, standalone.PostgresConfig{Dir: filepath.Join(dir, "postgres"), Log: log}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.postgres.Close() })
	return s
}

// openDir is a temporary directory that other users may enter, as the private
// Postgres of a root process has to.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "airlock-services-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func (s *services) env() map[string]string {
	return map[string]string{"AIRLOCK_NATS": s.nats.URL(), "AIRLOCK_POSTGRES": s.postgres.URL()}
}

func (s *services) worker(t *testing.T, args ...string) *process {
	t.Helper()
	args = append([]string{"--nats", s.nats.URL(), "--postgres", s.postgres.URL(), "--slots", "2"}, args...)
	p, err := startWorker(args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	return p
}

// submitted puts a job into the queue and returns its id.
func (s *services) submitted(t *testing.T, code string, flags ...string) job.ID {
	t.Helper()
	got := submit(t, s.env(), code, append([]string{"run", "-", "--no-wait"}, flags...)...)
	id, err := job.ParseID(strings.TrimSpace(got.stdout))
	if err != nil {
		t.Fatalf("submit: %v; %s", err, got.stderr)
	}
	return id
}

// record is what the history says of a job, or nil.
func (s *services) record(t *testing.T, id job.ID) *job.Record {
	t.Helper()
	got := submit(t, s.env(), "", "status", id.String(), "--json")
	var r job.Record
	if got.code != 0 || json.Unmarshal([]byte(got.stdout), &r) != nil {
		return nil
	}
	return &r
}

func (s *services) await(t *testing.T, id job.ID, patience time.Duration, state job.State) *job.Record {
	t.Helper()
	var r *job.Record
	until(t, patience, "job "+string(state), func() bool {
		r = s.record(t, id)
		return r != nil && r.State == state
	})
	return r
}

// ends counts the finished attempts of a job, by SQL.
func (s *services) ends(t *testing.T, id job.ID) (finished int) {
	t.Helper()
	db, err := pgx.Connect(context.Background(), s.postgres.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(context.Background())
	if err := db.QueryRow(context.Background(), "SELECT count(*) FROM attempts WHERE job = $1 AND outcome = 'finished'", id.String()).Scan(&finished); err != nil {
		t.Fatal(err)
	}
	return finished
}

// marked starts a process that nothingRuns knows by the marker.
func marked(marker string) string {
	return "import subprocess, sys, time\nsubprocess.Popen([sys.executable, '-c', 'import time; time.sleep(" + marker + ")'])\n"
}

func TestAWorkerKilledMidJobEndsInOneResult(t *testing.T) {
	t.Parallel()
	s := startServices(t)
	first := s.worker(t)
	id := s.submitted(t, marked("7211")+"time.sleep(4); return 1")
	s.await(t, id, time.Minute, job.StateRunning)
	first.kill()
	nothingRuns(t, "7211")
	s.worker(t)
	// The lease of the dead worker runs out first.
	r := s.await(t, id, job.Lease+45*time.Second, job.StateFinished)
	if r.Status != job.StatusOK || len(r.Attempts) != 2 {
		t.Errorf("got %s after %d attempts, want ok after 2", r.Status, len(r.Attempts))
	}
	if got := s.ends(t, id); got != 1 {
		t.Errorf("finished attempts: got %d, want 1", got)
	}
}

func TestAPostgresRestartMidJobEndsInOneResult(t *testing.T) {
	t.Parallel()
	s := startServices(t)
	s.worker(t)
	id := s.submitted(t, "import time; time.sleep(3); return 1")
	s.await(t, id, time.Minute, job.StateRunning)
	if err := s.postgres.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := s.await(t, id, 60*time.Second, job.StateFinished)
	if r.Status != job.StatusOK || len(r.Attempts) != 1 {
		t.Errorf("got %s after %d attempts, want ok after 1", r.Status, len(r.Attempts))
	}
	if got := s.ends(t, id); got != 1 {
		t.Errorf("finished attempts: got %d, want 1", got)
	}
}

func TestADrainFinishesWhatRunsAndHandsBackTheRest(t *testing.T) {
	t.Parallel()
	s := startServices(t)
	first := s.worker(t, "--drain-grace", "4s")
	short := s.submitted(t, "import time; time.sleep(2); return 1")
	long := s.submitted(t, "import time; time.sleep(8); return 2", "--wall", "60s")
	s.await(t, short, time.Minute, job.StateRunning)
	s.await(t, long, time.Minute, job.StateRunning)
	second := s.worker(t)
	if err := first.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	first.awaitEnd(t, 3*time.Minute)
	if first.err != nil {
		t.Errorf("the draining worker ended with %v:\n%s", first.err, first.stderr)
	}
	if r := s.await(t, short, time.Minute, job.StateFinished); len(r.Attempts) != 1 {
		t.Errorf("short job: got %d attempts, want 1", len(r.Attempts))
	}
	r := s.await(t, long, time.Minute, job.StateFinished)
	if r.Status != job.StatusOK || r.Failures != 0 || s.ends(t, long) != 1 {
		t.Errorf("long job: got %s with %d failures counted, want ok with 0", r.Status, r.Failures)
	}
	second.stop()
	if second.err != nil {
		t.Errorf("worker ended with %v:\n%s", second.err, second.stderr)
	}
}

func TestCancelAtEachStage(t *testing.T) {
	t.Parallel()
	s := startServices(t)
	s.worker(t)
	queued := s.submitted(t, "return 1", "--not-before", time.Now().Add(time.Hour).Format(time.RFC3339))
	running := s.submitted(t, marked("7222")+"time.sleep(99)", "--wall", "100s")
	s.await(t, running, time.Minute, job.StateRunning)
	for _, id := range []job.ID{running, queued} {
		if got := submit(t, s.env(), "", "cancel", id.String()); got.code != 0 {
			t.Fatalf("cancel: exit %d, %s", got.code, got.stderr)
		}
		if r := s.await(t, id, time.Minute, job.StateFinished); r.Status != job.StatusCancelled {
			t.Errorf("status: got %s, want cancelled", r.Status)
		}
		// A finished job stays as it is.
		submit(t, s.env(), "", "cancel", id.String())
		if r := s.record(t, id); r.State != job.StateFinished || r.Status != job.StatusCancelled {
			t.Errorf("after a second cancel: %s, %s", r.State, r.Status)
		}
	}
	nothingRuns(t, "7222")
}

func TestServicesThatAreDownAtStart(t *testing.T) {
	t.Parallel()
	require(t, "bubblewrap", "bwrap")
	binary(t, "worker")
	_, err := startWorker("--nats", "nats://127.0.0.1:1", "--postgres", "postgres://127.0.0.1:1/x", "--connect-timeout", "2s")
	if err == nil || !strings.Contains(err.Error(), "exit status 4") || !strings.Contains(err.Error(), "--nats") {
		t.Errorf("got %v, want exit status 4 and what to look at", err)
	}
}
