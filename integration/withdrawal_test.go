package integration_test

import (
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/jackc/pgx/v5"

	"airlock/job"
	"airlock/queue"
)

// outage is a way to take a backend from a worker and to give it back.
type outage struct {
	backend string
	// env and flags are the worker's.
	env, flags []string
	leave      func(t *testing.T)
	back       func(t *testing.T)
	// reason is in what the fleet sees meanwhile.
	reason string
}

// TestABackendGoesAwayMidBatch: it is withdrawn, with the reason for all to
// see, it comes back, and every job of the batch has one result.
func TestABackendGoesAwayMidBatch(t *testing.T) {
	t.Parallel()
	for name, arrange := range map[string]func(*testing.T) outage{"bubblewrap": bwrapOutage, "docker": engineOutage} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startServices(t)
			o := arrange(t)
			flags := append([]string{"--nats", s.nats.URL(), "--postgres", s.postgres.URL(), "--slots", "2", "--backends", o.backend}, o.flags...)
			p, err := startWorkerIn(o.env, flags...)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(p.kill)
			sufferOutage(t, s, o)
			p.stop()
			if p.err != nil {
				t.Errorf("the worker ended with %v:\n%s", p.err, p.stderr)
			}
		})
	}
}

func sufferOutage(t *testing.T, s *services, o outage) {
	const jobs = 30
	file := filepath.Join(t.TempDir(), "jobs.jsonl")
	if err := os.WriteFile(file, []byte(strings.Repeat(`{"code": "import time; time.sleep(0.2); return 1"}`+"\n", jobs)), 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan said, 1)
	go func() { done <- submit(t, s.env(), "", "batch", file, "--batch", "outage", "--park") }()
	until(t, 60*time.Second, "a part of the batch", func() bool {
		got := submit(t, s.env(), "", "history", "--batch", "outage", "--status", "ok", "--json")
		return strings.Count(got.stdout, "\n") >= jobs/5
	})

	o.leave(t)
	until(t, time.Minute, "the withdrawal", func() bool {
		w := s.onlyWorker(t)
		return len(w.Offers) == 0 && strings.Contains(w.Unavailable[o.backend], o.reason)
	})
	if got := submit(t, s.env(), "", "workers"); !strings.Contains(got.stdout, o.backend) || !strings.Contains(got.stdout, "not available") {
		t.Errorf("submit workers does not show the withdrawal:\n%s", got.stdout)
	}
	o.back(t)
	until(t, 90*time.Second, "the return", func() bool { return len(s.onlyWorker(t).Offers) == 1 })

	got := <-done
	if n := okResults(t, got.stdout); got.code != 0 || n != jobs {
		t.Errorf("exit %d with %d ok results, want 0 with %d; %s", got.code, n, jobs, got.stderr)
	}
	if ends, distinct := s.allEnds(t); ends != jobs || distinct != jobs {
		t.Errorf("got %d ends of %d jobs, want one of each of %d", ends, distinct, jobs)
	}
}

// okResults counts the results that are ok, whatever their earlier attempts
// were.
func okResults(t *testing.T, lines string) (n int) {
	t.Helper()
	for line := range strings.Lines(lines) {
		var r job.Result
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("read %s: %v", line, err)
		}
		if r.Status == job.StatusOK {
			n++
		}
	}
	return n
}

// onlyWorker is what the fleet shows of the one worker.
func (s *services) onlyWorker(t *testing.T) (w queue.Presence) {
	t.Helper()
	got := submit(t, s.env(), "", "workers", "--json")
	if err := json.Unmarshal([]byte(strings.TrimSpace(got.stdout)), &w); err != nil {
		t.Fatalf("submit workers: %v in %s%s", err, got.stdout, got.stderr)
	}
	return w
}

// allEnds counts the finished attempts and the jobs that have one.
func (s *services) allEnds(t *testing.T) (ends, jobs int) {
	t.Helper()
	db, err := pgx.Connect(context.Background(), s.postgres.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(context.Background())
	if err := db.QueryRow(context.Background(), "SELECT count(*), count(DISTINCT job) FROM attempts WHERE outcome = 'finished'").Scan(&ends, &jobs); err != nil {
		t.Fatal(err)
	}
	return ends, jobs
}

// bwrapOutage takes bwrap out of the worker's PATH.
func bwrapOutage(t *testing.T) outage {
	real, err := exec.LookPath("bwrap")
	if err != nil {
		t.Fatal(err)
	}
	dir := openDir(t)
	link := filepath.Join(dir, "bwrap")
	put := func(t *testing.T) {
		t.Helper()
		if err := os.Symlink(real, link); err != nil {
			t.Fatal(err)
		}
	}
	put(t)
	return outage{
		// Nothing else of PATH: bwrap is in what is usual there too.
		backend: "bubblewrap", env: []string{"PATH=" + dir}, reason: "bwrap is not in PATH", back: put,
		leave: func(t *testing.T) {
			t.Helper()
			if err := os.Remove(link); err != nil {
				t.Fatal(err)
			}
		},
	}
}

// engineOutage lets the worker reach the engine by a socket of the test's own,
// as no test may stop the engine itself.
func engineOutage(t *testing.T) outage {
	require(t, "docker", "docker")
	path, ok := strings.CutPrefix(os.Getenv("DOCKER_HOST"), "unix://")
	if !ok {
		path = "/var/run/docker.sock"
	}
	if out, err := exec.Command("docker", "-H", "unix://"+path, "image", "inspect", "airlock-runner").CombinedOutput(); err != nil {
		missing(t, "docker", "no engine with the image airlock-runner answers at "+path+": "+string(out))
	}
	p := &relay{to: path, at: filepath.Join(openDir(t), "engine.sock")}
	p.open(t)
	t.Cleanup(func() { p.close(t) })
	return outage{
		backend: "docker", flags: []string{"--docker-host", "unix://" + p.at}, reason: "engine.sock", leave: p.close, back: p.open,
	}
}

// relay carries connections to a socket until it is closed.
type relay struct {
	at, to string

	mu       sync.Mutex
	listener net.Listener // guarded by mu
	conns    []net.Conn   // guarded by mu
	carrying sync.WaitGroup
}

func (r *relay) open(t *testing.T) {
	t.Helper()
	l, err := net.Listen("unix", r.at)
	if err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	r.listener = l
	r.mu.Unlock()
	r.carrying.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			r.carrying.Go(func() { r.carry(from) })
		}
	})
}

// close ends what is carried too. It may be called twice.
func (r *relay) close(t *testing.T) {
	r.mu.Lock()
	if r.listener != nil {
		r.listener.Close()
		r.listener = nil
	}
	for _, c := range r.conns {
		c.Close()
	}
	r.conns = nil
	r.mu.Unlock()
	r.carrying.Wait()
}

func (r *relay) carry(from net.Conn) {
	defer from.Close()
	to, err := net.Dial("unix", r.to)
	if err != nil {
		return
	}
	defer to.Close()
	r.mu.Lock()
	if r.listener == nil {
		r.mu.Unlock()
		return
	}
	r.conns = append(r.conns, from, to)
	r.mu.Unlock()
	var both sync.WaitGroup
	for a, b := range map[net.Conn]net.Conn{from: to, to: from} {
		both.Go(func() {
			_, _ = io.Copy(a, b)
			// The other way may go on: an end of input is not one of output.
			if half, ok := a.(*net.UnixConn); ok {
				_ = half.CloseWrite()
			}
		})
	}
	both.Wait()
}
