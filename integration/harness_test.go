package integration_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"airlock/job"
)

// canary is in the environment of every worker that these tests start; no
// guest may ever see it.
const canary = "AIRLOCK_TEST_CANARY=8d1f3c-never-in-a-guest"

var binaries struct {
	once sync.Once
	dir  string
	err  error
}

// binary returns the path of a freshly built command.
func binary(t testing.TB, name string) string {
	t.Helper()
	binaries.once.Do(func() {
		binaries.dir, binaries.err = os.MkdirTemp("", "airlock-bin-")
		if binaries.err != nil {
			return
		}
		build := exec.Command("go", "build", "-o", binaries.dir+"/", "airlock/cmd/worker", "airlock/cmd/submit", "airlock/cmd/toolbridge", "airlock/cmd/gateway")
		build.Env = append(os.Environ(), "GOFLAGS=-buildvcs=false")
		if out, err := build.CombinedOutput(); err != nil {
			binaries.err = fmt.Errorf("build: %w\n%s", err, out)
		}
	})
	if binaries.err != nil {
		t.Fatal(binaries.err)
	}
	return filepath.Join(binaries.dir, name)
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.worker != nil {
		shared.worker.stop()
	}
	removeContainers()
	os.RemoveAll(binaries.dir)
	os.RemoveAll(shared.dir)
	os.Exit(code)
}

// process is a running worker.
type process struct {
	cmd    *exec.Cmd
	stderr *transcript
	ended  chan struct{}
	err    error
}

// transcript is what a process has said so far.
type transcript struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (l *transcript) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *transcript) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// startWorker starts a worker and waits until it is ready.
func startWorker(args ...string) (*process, error) { return startWorkerIn(nil, args...) }

// startWorkerIn does so with more in its environment.
func startWorkerIn(env []string, args ...string) (*process, error) {
	cmd := exec.Command(filepath.Join(binaries.dir, "worker"), args...)
	cmd.Env = append(append(os.Environ(), canary), env...)
	return startCommand(cmd)
}

// startCommand starts a worker and waits until it is ready.
func startCommand(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, stderr: &transcript{}, ended: make(chan struct{})}
	p.cmd.Stderr = p.stderr
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	ready := make(chan bool, 1)
	go func() {
		defer close(p.ended)
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			if lines.Text() == "ready" {
				ready <- true
			}
		}
		p.err = p.cmd.Wait()
		ready <- false
	}()
	select {
	case ok := <-ready:
		if ok {
			return p, nil
		}
		return nil, fmt.Errorf("worker ended before it was ready: %w\n%s", p.err, p.stderr)
	case <-time.After(startPatience):
		p.kill()
		return nil, fmt.Errorf("worker is not ready after %s\n%s", startPatience, p.stderr)
	}
}

// startPatience is for a worker with servers of its own, while other tests have
// the processors.
const startPatience = 5 * time.Minute

// stop drains the worker and waits for its end.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	<-p.ended
}

// awaitEnd waits for the worker to end by itself.
func (p *process) awaitEnd(t testing.TB, patience time.Duration) {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		t.Fatalf("the worker has not ended after %s", patience)
	}
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// shared is one standalone Airlock for all tests that only use it.
var shared struct {
	once   sync.Once
	dir    string
	worker *process
	env    map[string]string
	err    error
}

// standaloneEnv starts the shared Airlock if need be and returns its
// airlock.env.
func standaloneEnv(t testing.TB) map[string]string {
	t.Helper()
	require(t, "bubblewrap", "bwrap")
	require(t, "postgres", "initdb")
	binary(t, "worker")
	shared.once.Do(func() {
		if shared.dir, shared.err = os.MkdirTemp("", "airlock-shared-"); shared.err != nil {
			return
		}
		if shared.err = os.Chmod(shared.dir, 0o755); shared.err != nil {
			return
		}
		shared.worker, shared.err = startWorker("--standalone", "--data", shared.dir, "--listen-nats", "127.0.0.1:0", "--listen-http", "127.0.0.1:0", "--slots", "4")
		if shared.err == nil {
			shared.env, shared.err = readEnv(filepath.Join(shared.dir, "airlock.env"))
		}
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.env
}

func readEnv(path string) (map[string]string, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	env := map[string]string{}
	for line := range strings.Lines(string(raw)) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if ok {
			env[name] = value
		}
	}
	return env, nil
}

// require skips the test when the program is not here, and fails it when
// AIRLOCK_REQUIRE names the service.
func require(t testing.TB, service, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err == nil {
		return
	}
	if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + program); len(found) > 0 {
		return
	}
	missing(t, service, "no "+program+" on this machine")
}

// missing skips the test, or fails it when AIRLOCK_REQUIRE names the service.
func missing(t testing.TB, service, why string) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv("AIRLOCK_REQUIRE"), ","), service) {
		t.Fatalf("%s is required, and not here: %s", service, why)
	}
	t.Skipf("%s is not here: %s", service, why)
}

// said is what a command printed and how it ended.
type said struct {
	stdout, stderr string
	code           int
}

// submit runs the submit command against the given environment.
func submit(t testing.TB, env map[string]string, stdin string, args ...string) said {
	t.Helper()
	return submitWithin(context.Background(), t, env, stdin, args...)
}

// submitWithin ends the command when ctx ends.
func submitWithin(ctx context.Context, t testing.TB, env map[string]string, stdin string, args ...string) said {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary(t, "submit"), args...)
	cmd.Env = os.Environ()
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Stdin = strings.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("submit %v: %v", args, err)
	}
	return said{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// runJob runs code on the shared Airlock and returns its result.
func runJob(t testing.TB, code string, flags ...string) *job.Result {
	t.Helper()
	env := standaloneEnv(t)
	got := submit(t, env, code, append([]string{"run", "-", "--json"}, flags...)...)
	var r job.Result
	if err := json.Unmarshal([]byte(got.stdout), &r); err != nil {
		t.Fatalf("submit run: %v; exit %d, stdout %.300q, stderr %.2000s", err, got.code, got.stdout, got.stderr)
	}
	return &r
}

// until polls with a deadline.
func until(t testing.TB, patience time.Duration, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s", what, patience)
		}
	}
}
