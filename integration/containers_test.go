package integration_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"

	"airlock/job"
)

// plant is a NATS, or a cluster of them, and a Postgres in containers, with
// workers of this host as processes beside them.
type plant struct {
	natsURL, postgresURL string
}

// natsOptions run a server with JetStream, whatever the image's own start is.
func natsOptions(args ...string) []testcontainers.ContainerCustomizer {
	return []testcontainers.ContainerCustomizer{
		testcontainers.WithEntrypoint("nats-server"),
		testcontainers.WithCmd(append([]string{"-js", "-sd", "/data", "-m", "8222"}, args...)...),
		testcontainers.WithWaitStrategy(wait.ForListeningPort("4222/tcp").SkipInternalCheck()),
	}
}

// startPostgres returns a Postgres and its URL. Its data outlives a restart
// only when kept is set; else they are in memory, which starts faster.
func startPostgres(t testing.TB, e *engine, kept bool) (*boxed, string) {
	t.Helper()
	options := []testcontainers.ContainerCustomizer{
		testcontainers.WithEnv(map[string]string{"POSTGRES_USER": "airlock", "POSTGRES_PASSWORD": "airlock", "POSTGRES_DB": "airlock", "TZ": "UTC"}),
		// The first time is that of the server that only sets up.
		testcontainers.WithWaitStrategy(wait.ForAll(
			wait.ForLog("database system is ready to accept connections").WithOccurrence(2),
			wait.ForListeningPort("5432/tcp").SkipInternalCheck())),
	}
	if !kept {
		options = append(options, testcontainers.WithTmpfs(map[string]string{"/var/lib/postgresql/data": "rw,size=512m"}))
	}
	b := e.start(t, e.image(t, "POSTGRES_IMAGE"), []string{"5432/tcp"}, options...)
	b.name = "postgres"
	return b, fmt.Sprintf("postgres://airlock:airlock@%s/airlock?sslmode=disable", b.address("5432/tcp"))
}

func (p *plant) env() map[string]string {
	return map[string]string{"AIRLOCK_NATS": p.natsURL, "AIRLOCK_POSTGRES": p.postgresURL}
}

func (p *plant) worker(t testing.TB, args ...string) *process {
	t.Helper()
	binary(t, "worker")
	w, err := startWorker(append([]string{"--nats", p.natsURL, "--postgres", p.postgresURL}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.kill()
		if t.Failed() {
			t.Logf("a worker said:\n%s", tail(w.stderr.String(), 60))
		}
	})
	return w
}

func tail(text string, lines int) string {
	all := strings.Split(text, "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// shift is a batch on its way through a plant: the job of line n gives n.
type shift struct {
	*plant
	batch string
	jobs  int
	// ended has what submit said, once it has ended.
	ended chan said
}

// begin submits a batch, of which few jobs are under way at a time: what
// befalls the plant befalls publishing as well. The line is a job with %d for
// its number.
func (p *plant) begin(t *testing.T, batch string, jobs int, line string) *shift {
	t.Helper()
	var lines strings.Builder
	for n := range jobs {
		fmt.Fprintf(&lines, line+"\n", n+1)
	}
	file := filepath.Join(t.TempDir(), batch+".jsonl")
	if err := os.WriteFile(file, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &shift{plant: p, batch: batch, jobs: jobs, ended: make(chan said, 1)}
	binary(t, "submit")
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		s.ended <- submitWithin(ctx, t, p.env(), "", "--timeout", "1m", "batch", file, "--batch", batch, "--in-flight", "60")
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
		if t.Failed() && len(s.ended) > 0 {
			t.Logf("submit said of %s:\n%s", batch, tail((<-s.ended).stderr, 40))
		}
	})
	return s
}

// finished counts the batch's jobs that have ended, by SQL.
func (s *shift) finished(t *testing.T) (count int) {
	t.Helper()
	s.query(t, "SELECT count(*) FROM jobs WHERE batch = $1 AND state = 'finished'", &count)
	return count
}

func (s *shift) awaitFinished(t *testing.T, patience time.Duration, count int) {
	t.Helper()
	until(t, patience, fmt.Sprintf("%d jobs of %s finished", count, s.batch), func() bool { return s.finished(t) >= count })
}

// query asks about the batch. It outlasts a restart of the database.
func (s *shift) query(t *testing.T, sql string, into ...any) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		var db *pgx.Conn
		if db, err = pgx.Connect(t.Context(), s.postgresURL); err != nil {
			continue
		}
		err = db.QueryRow(t.Context(), sql, s.batch).Scan(into...)
		db.Close(t.Context())
		if err == nil {
			return
		}
	}
	t.Fatalf("%s: %v", sql, err)
}

// endsWhole waits for the batch, and checks that each of its jobs has one
// result, for those who wait as in the history.
func (s *shift) endsWhole(t *testing.T, patience time.Duration) {
	t.Helper()
	var got said
	select {
	case got = <-s.ended:
	case <-time.After(patience):
		t.Fatalf("batch %s has not ended after %s: %d of %d jobs are finished", s.batch, patience, s.finished(t), s.jobs)
	}
	if got.code != 0 {
		t.Errorf("submit: exit %d, %s", got.code, tail(got.stderr, 20))
	}
	want, have := map[int]string{}, map[int]string{}
	for n := range s.jobs {
		want[n+1] = fmt.Sprintf("ok %d", n+1)
	}
	for line := range strings.Lines(got.stdout) {
		var r struct {
			job.Result
			Line int `json:"line"`
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("a result line: %v: %s", err, line)
		}
		have[r.Line] += fmt.Sprintf("%s %s", r.Status, r.Value)
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("results by line (-want +got):\n%s", diff)
	}
	s.checkHistory(t)
}

func (s *shift) checkHistory(t *testing.T) {
	t.Helper()
	var jobs, ok, ends, ended int
	s.query(t, `
SELECT count(*), count(*) FILTER (WHERE state = 'finished' AND status = 'ok'),
	(SELECT count(*) FROM attempts a JOIN jobs b ON b.id = a.job WHERE b.batch = $1 AND a.outcome = 'finished'),
	(SELECT count(DISTINCT a.job) FROM attempts a JOIN jobs b ON b.id = a.job WHERE b.batch = $1 AND a.outcome = 'finished')
FROM jobs
WHERE batch = $1`, &jobs, &ok, &ends, &ended)
	got := map[string]int{"jobs": jobs, "ok": ok, "attempts with a result": ends, "jobs with a result": ended}
	want := map[string]int{"jobs": s.jobs, "ok": s.jobs, "attempts with a result": s.jobs, "jobs with a result": s.jobs}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("history of %s (-want +got):\n%s", s.batch, diff)
	}
}

// empties waits until nothing of the queue waits for anybody. A message whose
// delivery was lost comes again only after AckWait.
func (p *plant) empties(t *testing.T) {
	t.Helper()
	nc, err := nats.Connect(p.natsURL, nats.MaxReconnects(-1))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"JOBS", "QUEUED"} {
		var left uint64
		until(t, job.AckWait+60*time.Second, "stream "+name+" empty", func() bool {
			stream, err := js.Stream(t.Context(), name)
			if err != nil {
				return false
			}
			left = stream.CachedInfo().State.Msgs
			return left == 0
		})
	}
}

func TestRestartedContainersLoseNothing(t *testing.T) {
	t.Parallel()
	e := containerEngine(t)
	require(t, "bubblewrap", "bwrap")
	server := e.start(t, e.image(t, "NATS_IMAGE"), []string{"4222/tcp"}, natsOptions()...)
	server.name = "nats"
	database, url := startPostgres(t, e, true)
	p := &plant{natsURL: "nats://" + server.address("4222/tcp"), postgresURL: url}
	for range 2 {
		p.worker(t, "--backends", "bubblewrap", "--slots", "3")
	}
	const jobs, line = 200, `{"code": "import time; time.sleep(0.02); return %d"}`
	for _, tc := range []struct {
		name    string
		restart *boxed
	}{
		{name: "undisturbed"},
		{name: "postgres", restart: database},
		{name: "nats", restart: server},
	} {
		if !t.Run(tc.name, func(t *testing.T) {
			s := p.begin(t, "container-"+tc.name, jobs, line)
			if tc.restart != nil {
				s.awaitFinished(t, 60*time.Second, jobs/4)
				tc.restart.restart(t)
			}
			s.endsWhole(t, 150*time.Second)
		}) {
			return // what follows would only repeat it
		}
	}
	p.empties(t)
}
