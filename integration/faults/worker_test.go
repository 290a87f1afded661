//go:build linux

package faults_test

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"airlock/worker/failpoint"
)

// worker is the real command in a process of its own.
type worker struct {
	cmd   *exec.Cmd
	said  transcript
	ready chan struct{}
	ended chan struct{}
}

// transcript is what a process has said.
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

// start starts a worker with these labels; points are its failpoints, and env
// are more variables.
func (p *plant) start(t testing.TB, labels []string, points, binary string, env ...string) *worker {
	t.Helper()
	natsURL, postgresURL := p.ways(t)
	var list []string
	for _, name := range labels {
		list = append(list, name+"=1")
	}
	w := &worker{ready: make(chan struct{}), ended: make(chan struct{})}
	w.cmd = exec.Command(binary, "--backends", p.backend, "--slots", "2", "--parked", "0", "--labels", strings.Join(list, ";"),
		"--connect-timeout", "180s", "--drain-grace", "2s")
	w.cmd.Env = append(append(os.Environ(), "AIRLOCK_NATS="+natsURL, "AIRLOCK_POSTGRES="+postgresURL, failpoint.Env+"="+points), env...)
	w.cmd.Stderr = &w.said
	w.cmd.SysProcAttr = dieWithParent()
	stdout := &notice{word: "ready", heard: w.ready}
	w.cmd.Stdout = stdout
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { defer close(w.ended); _ = w.cmd.Wait() }()
	t.Cleanup(func() { w.signal(syscall.SIGKILL); <-w.ended })
	return w
}

// notice closes heard when the word has been written.
type notice struct {
	word  string
	heard chan struct{}
	text  []byte
}

func (n *notice) Write(b []byte) (int, error) {
	before := strings.Contains(string(n.text), n.word)
	n.text = append(n.text, b...)
	if !before && strings.Contains(string(n.text), n.word) {
		close(n.heard)
	}
	return len(b), nil
}

func (w *worker) awaitReady(t testing.TB) {
	t.Helper()
	select {
	case <-w.ready:
	case <-w.ended:
		t.Fatalf("worker ended before it was ready:\n%s", w.said.String())
	case <-time.After(patience):
		t.Fatalf("worker is not ready after %s:\n%s", patience, w.said.String())
	}
}

func (w *worker) reached() bool { return strings.Contains(w.said.String(), failpoint.Reached) }

func (w *worker) signal(s syscall.Signal) { _ = w.cmd.Process.Signal(s) }

// drain ends the worker in its own way.
func (w *worker) drain(t testing.TB) {
	t.Helper()
	w.signal(syscall.SIGTERM)
	w.await(t)
}

func (w *worker) await(t testing.TB) {
	t.Helper()
	select {
	case <-w.ended:
	case <-time.After(patience):
		t.Fatalf("worker does not end:\n%s", w.said.String())
	}
}
