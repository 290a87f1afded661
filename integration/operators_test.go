package integration_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"airlock/job"
	"airlock/standalone"
)

func TestNoIsolationHasToBeAskedFor(t *testing.T) {
	t.Parallel()
	s := startServices(t)
	args := []string{"--nats", s.nats.URL(), "--postgres", s.postgres.URL(), "--backends", "local"}
	if _, err := startWorker(args...); err == nil || !strings.Contains(err.Error(), "exit status 4") || !strings.Contains(err.Error(), "--allow-no-isolation") {
		t.Errorf("without the flag: got %v, want exit status 4 and the flag's name", err)
	}
	p := s.worker(t, "--backends", "local", "--allow-no-isolation")
	if !strings.Contains(p.stderr.String(), "isolation") {
		t.Errorf("the start says nothing of it: %s", p.stderr)
	}
	// A job that does not ask for less than strong is not run there.
	if got := submit(t, s.env(), "", "run", "--code", "1"); got.code != 3 {
		t.Errorf("exit code: got %d, want 3; %s", got.code, got.stderr)
	}
	if got := submit(t, s.env(), "", "run", "--code", "return 7", "--isolation", "none"); got.code != 0 || !strings.Contains(got.stdout, "7") {
		t.Errorf("exit code %d, stdout %q; %s", got.code, got.stdout, got.stderr)
	}
}

func TestADeadJobKeepsItsInputAndCanBeRequeued(t *testing.T) {
	t.Parallel()
	s := startServices(t)
	small := s.worker(t, "--max-limits", `{"memory": "64MiB"}`)
	if got := submit(t, s.env(), "", "run", "--code", "1"); got.code != 3 || !strings.Contains(got.stderr, "64MiB") {
		t.Errorf("above the maximum: exit %d, %s; want 3 and the maximum", got.code, got.stderr)
	}
	id := s.submitted(t, "return 9", "--park")
	if r := s.await(t, id, time.Minute, job.StateDead); r.Status != job.StatusInfraError || r.Error.Type != "limit_above_maximum" {
		t.Errorf("got %s, %+v", r.Status, r.Error)
	}
	if got := submit(t, s.env(), "", "dead"); !strings.Contains(got.stdout, id.String()) {
		t.Errorf("submit dead lacks the job: %s", got.stdout)
	}
	s.worker(t)
	small.stop()
	if got := submit(t, s.env(), "", "requeue", id.String()); got.code != 0 {
		t.Fatalf("requeue: exit %d, %s", got.code, got.stderr)
	}
	if r := s.await(t, id, time.Minute, job.StateFinished); r.Status != job.StatusOK {
		t.Errorf("after requeue: got %s, want ok", r.Status)
	}
	if got := submit(t, s.env(), "", "requeue", id.String()); got.code == 0 {
		t.Error("a job that is not dead was requeued")
	}
}

func TestTheSecondSignalLeavesAtOnce(t *testing.T) {
	t.Parallel()
	s := startServices(t)
	p := s.worker(t)
	id := s.submitted(t, marked("7233")+"time.sleep(99)", "--wall", "100s")
	s.await(t, id, time.Minute, job.StateRunning)
	for range 2 {
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		time.Sleep(200 * time.Millisecond) // two signals at once are one
	}
	p.awaitEnd(t, time.Minute)
	if p.err == nil || !strings.Contains(p.err.Error(), "exit status 4") {
		t.Errorf("ended with %v, want exit status 4", p.err)
	}
	nothingRuns(t, "7233")
}

func TestAStandaloneEndsWhatItStarted(t *testing.T) {
	t.Parallel()
	require(t, "bubblewrap", "bwrap")
	require(t, "postgres", "initdb")
	binary(t, "worker")
	dir := openDir(t)
	args := []string{"--standalone", "--data", dir, "--listen-nats", "127.0.0.1:0"}
	for i, end := range []func(*process){(*process).stop, (*process).kill, (*process).stop} {
		p, err := startWorker(args...)
		if err != nil {
			t.Fatalf("start %d: %v", i+1, err)
		}
		env, err := readEnv(filepath.Join(dir, "airlock.env"))
		if err != nil {
			t.Fatal(err)
		}
		code := fmt.Sprintf("return %d", i)
		if got := submit(t, env, "", "run", "--code", code, "--key", code); got.code != 0 {
			t.Errorf("start %d: exit %d, %s", i+1, got.code, got.stderr)
		}
		// What earlier starts wrote is still there.
		if got := submit(t, env, "", "history", "--json"); strings.Count(got.stdout, "\n") != i+1 {
			t.Errorf("start %d: the history is %s", i+1, got.stdout)
		}
		end(p)
		until(t, time.Minute, "the end of everything in "+dir, func() bool { return !anyProcess(dir) })
	}
}

func TestANATSRestartLosesNothing(t *testing.T) {
	t.Parallel()
	s := startServices(t)
	s.worker(t)
	const jobs = 40
	file := filepath.Join(t.TempDir(), "jobs.jsonl")
	if err := os.WriteFile(file, []byte(strings.Repeat(`{"code": "import time; time.sleep(0.1); return 1"}`+"\n", jobs)), 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan said, 1)
	go func() { done <- submit(t, s.env(), "", "batch", file, "--batch", "restart") }()
	until(t, time.Minute, "half of the batch", func() bool {
		var sum job.Summary
		got := submit(t, s.env(), "", "history", "--batch", "restart", "--status", "ok", "--json")
		sum.Total = strings.Count(got.stdout, "\n")
		return sum.Total >= jobs/4
	})
	s.restartNATS(t)
	got := <-done
	if n := okResults(t, got.stdout); got.code != 0 || n != jobs {
		t.Errorf("exit %d with %d ok results, want 0 with %d; %s", got.code, n, jobs, got.stderr)
	}
	if n := attemptsOf(t, s.env(), got.stdout); n != jobs {
		t.Errorf("attempts: got %d, want %d", n, jobs)
	}
}

// restartNATS stops the server and starts it again on the same port and store.
func (s *services) restartNATS(t *testing.T) {
	t.Helper()
	if err := s.nats.Close(); err != nil {
		t.Fatal(err)
	}
	var err error
	if s.nats, err = standalone.StartNATS(t.Context(), s.natsConfig); err != nil {
		t.Fatal(err)
	}
}

func TestPrioritiesAndCommandsThatList(t *testing.T) {
	t.Parallel()
	env := standaloneEnv(t)
	r := runJob(t, "return await add(a=1, b=2)", "--tools", "math.add", "--priority", "high")
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"status", r.Job.String()}, "ok"},
		{[]string{"result", r.Job.String()}, `"sum"`},
		{[]string{"calls", r.Job.String()}, "math"},
		{[]string{"workers"}, "bubblewrap"},
		{[]string{"lanes"}, "any"},
		{[]string{"history", "--status", "ok", "--since", "1h"}, r.Job.String()},
	} {
		got := submit(t, env, "", tc.args...)
		if got.code != 0 || !strings.Contains(got.stdout, tc.want) {
			t.Errorf("submit %v: exit %d, %s%s; want %q in it", tc.args, got.code, got.stdout, got.stderr, tc.want)
		}
		got = submit(t, env, "", append(tc.args, "--json")...)
		for line := range strings.Lines(got.stdout) {
			var any map[string]any
			if err := json.Unmarshal([]byte(line), &any); err != nil {
				t.Errorf("submit %v --json: %v in %s", tc.args, err, line)
			}
		}
	}
}
