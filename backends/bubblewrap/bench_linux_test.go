package bubblewrap_test

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"airlock/backends"
	"airlock/backends/bubblewrap"
	"airlock/backends/internal/interpreter"
	"airlock/job"
)

// BenchmarkRun compares whole runs, from a call of Run to its return, with
// bwrap started alone around the same interpreter and an empty program, by
// turns, so that all see the same machine: first with the same empty program
// in place of the guest's code, which shows what this package adds, then with
// the guest's code and a job, which shows what the guest adds as well.
func BenchmarkRun(b *testing.B) {
	temp := publicDir(b)
	b.Setenv("TMPDIR", temp)
	backend, empty := bubblewrap.New(bubblewrap.Config{}), bubblewrap.New(bubblewrap.Config{})
	defer backend.Close()
	defer empty.Close()
	if _, err := empty.Probe(b.Context()); err != nil {
		b.Skip(err)
	}
	hollow(b, temp)
	if _, err := backend.Probe(b.Context()); err != nil {
		b.Skip(err)
	}
	bare := bareCommand(b, temp)
	var alone, nothing, whole []time.Duration
	for b.Loop() {
		alone = append(alone, took(func() { runBare(b, bare) }))
		nothing = append(nothing, took(func() { runGuest(b, empty) }))
		whole = append(whole, took(func() { runGuest(b, backend) }))
	}
	b.ReportMetric(median(alone), "bare-p50-ms")
	b.ReportMetric(median(nothing)-median(alone), "added-p50-ms")
	b.ReportMetric(median(whole)-median(alone), "added-with-job-p50-ms")
}

func took(f func()) time.Duration {
	began := time.Now()
	f()
	return time.Since(began)
}

func median(all []time.Duration) float64 {
	slices.Sort(all)
	return all[len(all)/2].Seconds() * 1e3
}

// hollow puts an empty program in place of the staged guest's.
func hollow(b *testing.B, temp string) {
	staged, err := filepath.Glob(filepath.Join(temp, "airlock-*-guest*", "main.py"))
	if err != nil || len(staged) != 1 {
		b.Fatalf("got %v staged, error %v, want one main.py", staged, err)
	}
	if err := os.WriteFile(staged[0], []byte("pass\n"), 0o644); err != nil {
		b.Fatal(err)
	}
}

// runGuest runs one guest with the smallest job.
func runGuest(b *testing.B, backend backends.Backend) {
	var got seen
	out, err := backend.Run(b.Context(), backends.Task{
		Job: job.NewID(), Attempt: 1, Limits: job.DefaultLimits(), Stdout: io.Discard, Stderr: io.Discard,
		Serve: func(_ context.Context, channel io.ReadWriteCloser) error { return got.serve(channel, "1") },
	})
	if err != nil || out.Cause != backends.Exited || out.ExitCode != 0 {
		b.Fatalf("got %+v and error %v, want exit 0", out, err)
	}
}

// bareCommand is the same sandbox without control group, filter and bounds.
func bareCommand(b *testing.B, stage string) []string {
	python, err := interpreter.Find(b.Context(), "", nil)
	if err != nil {
		b.Skip(err)
	}
	args, err := bubblewrap.Layout(python, stage)
	if err != nil {
		b.Fatal(err)
	}
	for _, dir := range []string{"/tmp", "/workspace", "/dev/shm"} {
		args = append(args, "--perms", "0700", "--size", "1048576", "--tmpfs", dir)
	}
	args = append(args, "--disable-userns", "--remount-ro", "/", "--chdir", "/workspace", "--", python.Path)
	return append(append(args, interpreter.Flags()...), "-c", "pass")
}

func runBare(b *testing.B, args []string) {
	cmd := exec.Command("bwrap", args...)
	cmd.Env, cmd.Dir = []string{}, "/"
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1899999999, Gid: 1899999999}}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Skipf("bwrap alone does not run here: %v: %s", err, out)
	}
}
