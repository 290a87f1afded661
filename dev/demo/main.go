// Command demo shows a whole Airlock at work on this machine: it starts
// worker --standalone on free ports, submits the jobs of examples/, prints how
// each ended, and reads the audit trail of the first from Postgres. It exits 0
// only if every job ended as examples/demo.json says.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := demo(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func demo(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "airlock-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	// The private Postgres runs as another user when this is root.
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	examples, err := readExamples("examples")
	if err != nil {
		return err
	}
	w, err := startWorker(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.stop()) }()

	results, err := submit(ctx, w.env, dir, examples)
	if err != nil {
		return err
	}
	wrong := show(os.Stdout, examples, results)
	if err := showAudit(ctx, os.Stdout, w.postgres(), results[0].Job); err != nil {
		return err
	}
	if wrong > 0 {
		return fmt.Errorf("%d of %d jobs did not end as they should", wrong, len(examples))
	}
	fmt.Printf("\nAll %d jobs ended as they should.\n", len(examples))
	return nil
}

// workerProcess is a running worker --standalone.
type workerProcess struct {
	cmd *exec.Cmd
	// env holds the lines of its airlock.env.
	env []string
}

func startWorker(ctx context.Context, dir string) (*workerProcess, error) {
	cmd := exec.CommandContext(ctx, "bin/worker", "--standalone", "--data", dir, "--listen-nats", "127.0.0.1:0", "--listen-http", "127.0.0.1:0")
	cmd.Stderr = os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start worker: %w", err)
	}
	w := &workerProcess{cmd: cmd}
	if err := waitReady(stdout); err != nil {
		return nil, errors.Join(err, w.stop())
	}
	raw, err := os.ReadFile(filepath.Join(dir, "airlock.env"))
	if err != nil {
		return nil, errors.Join(err, w.stop())
	}
	w.env = strings.Split(strings.TrimSpace(string(raw)), "\n")
	return w, nil
}

// waitReady passes on what the worker prints until it is ready.
func waitReady(stdout io.Reader) error {
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		fmt.Println("  ", lines.Text())
		if lines.Text() == "ready" {
			go func() { _, _ = io.Copy(io.Discard, stdout) }()
			return nil
		}
	}
	return errors.New("the worker ended before it was ready")
}

func (w *workerProcess) stop() error {
	_ = w.cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
	if err := w.cmd.Wait(); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	return nil
}

func (w *workerProcess) postgres() string {
	for _, line := range w.env {
		if url, ok := strings.CutPrefix(line, "AIRLOCK_POSTGRES="); ok {
			return url
		}
	}
	return ""
}
