//go:build unix

package integration_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"

	"airlock/broker/provider"
	"airlock/job"
)

// bareHost is a directory with the commands, wasm's Python beside them and
// nothing else, and a worker's command there that finds no other program: as
// on a machine where nothing is installed. By root it is run as nobody.
func bareHost(t *testing.T) (dir string, worker *exec.Cmd) {
	t.Helper()
	require(t, "postgres", "initdb")
	python := filepath.Join(root, "bin", "wasm")
	if _, err := os.Stat(filepath.Join(python, "manifest.json")); err != nil {
		missing(t, "wasm", "run make wasm first: "+err.Error())
	}
	dir, err := os.MkdirTemp("", "airlock-bare-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	data, empty := filepath.Join(dir, "data"), filepath.Join(dir, "empty")
	err = errors.Join(os.Chmod(dir, 0o755), os.Mkdir(data, 0o700), os.Mkdir(empty, 0o755), os.CopyFS(filepath.Join(dir, "wasm"), os.DirFS(python)))
	program := filepath.Join(dir, "worker")
	if out, copied := exec.Command("cp", binary(t, "worker"), program).CombinedOutput(); err != nil || copied != nil {
		t.Fatalf("copy: %v, %v: %s", err, copied, out)
	}
	worker = exec.Command(program, "--standalone", "--data", data, "--listen-nats", "127.0.0.1:0", "--listen-http", "127.0.0.1:0", "--slots", "1")
	worker.Dir, worker.Env = dir, []string{"PATH=" + empty, "HOME=" + data, "TMPDIR=" + data, "DOCKER_HOST=unix://" + filepath.Join(empty, "none")}
	if os.Geteuid() == 0 {
		nobody, err := user.Lookup("nobody")
		if err != nil {
			t.Fatal(err)
		}
		uid, err := strconv.Atoi(nobody.Uid)
		if err = errors.Join(err, os.Chown(data, uid, uid)); err != nil {
			t.Fatal(err)
		}
		worker.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	}
	return dir, worker
}

// meeting is a tool that answers nobody before all are there: calls that were
// made one after the other would have no answer at all.
func meeting(of int) provider.Tool {
	var arrived atomic.Int32
	all := make(chan struct{})
	return provider.Tool{
		Name: "attend", InputSchema: jsontext.Value(`{"type":"object"}`),
		Handler: func(ctx context.Context, _ provider.Call) (any, error) {
			if int(arrived.Add(1)) == of {
				close(all)
			}
			select {
			case <-all:
				return of, nil
			case <-ctx.Done():
				return nil, provider.Errorf("alone", "%d of %d calls came", arrived.Load(), of)
			}
		},
	}
}

// TestNothingInstalled: a worker without privilege, bubblewrap and docker has
// wasm, and runs a job whose three calls are open at once.
func TestNothingInstalled(t *testing.T) {
	t.Parallel()
	dir, cmd := bareHost(t)
	p, err := startCommand(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.stop)
	env, err := readEnv(filepath.Join(dir, "data", "airlock.env"))
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(env["AIRLOCK_NATS"])
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- provider.Serve(ctx, nc, provider.Namespace{Name: "meet", Tools: []provider.Tool{meeting(3)}})
	}()
	until(t, time.Minute, "the tool is known", func() bool { return strings.Contains(submit(t, env, "", "tools").stdout, "attend") })
	const code = "import asyncio\nreturn await asyncio.gather(*[attend() for _ in range(3)])"
	got := submit(t, env, code, "run", "-", "--json", "--tools", "meet.attend", "--wall", "120s", "--tool-time", "120s")
	var r job.Result
	if err := json.Unmarshal([]byte(got.stdout), &r); err != nil {
		t.Fatalf("%v: %+v\n%s", err, got, p.stderr)
	}
	if string(r.Value) != "[3,3,3]" || r.ToolCalls != 3 {
		t.Errorf("got %s of %d calls (%+v), want [3,3,3] of 3", r.Value, r.ToolCalls, r.Error)
	}
	if r.Backend != "wasm" || r.Isolation.Level != job.IsolationStrong {
		t.Errorf("ran on %s at %s, want wasm at strong", r.Backend, r.Isolation.Level)
	}
	cancel()
	if err := <-served; err != nil {
		t.Errorf("provider: %v", err)
	}
}
