package bubblewrap_test

import (
	"context"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"airlock/backends"
	"airlock/backends/bubblewrap"
	"airlock/backends/internal/frame"
	"airlock/job"
)

// BenchmarkRun compares a whole run, from a call of Run to its return, with
// bwrap started alone around the same interpreter and an empty program, by
// turns, so that both see the same machine. The difference is what the guest's
// runtime and we add.
func BenchmarkRun(b *testing.B) {
	backend := bubblewrap.New(bubblewrap.Config{})
	defer backend.Close()
	if _, err := backend.Probe(b.Context()); err != nil {
		b.Skip(err)
	}
	var ours, talk, alone []time.Duration
	for b.Loop() {
		began := time.Now()
		runBare(b)
		alone = append(alone, time.Since(began))
		began = time.Now()
		talk = append(talk, runGuest(b, backend))
		ours = append(ours, time.Since(began))
	}
	median := func(all []time.Duration) float64 {
		slices.Sort(all)
		return all[len(all)/2].Seconds() * 1e3
	}
	b.ReportMetric(median(ours), "run-p50-ms")
	b.ReportMetric(median(talk), "hello-to-result-p50-ms")
	b.ReportMetric(median(alone), "bare-p50-ms")
	b.ReportMetric(median(ours)-median(alone), "added-p50-ms")
}

// runGuest runs one guest and returns how long its own code took.
func runGuest(b *testing.B, backend backends.Backend) (talked time.Duration) {
	out, err := backend.Run(b.Context(), backends.Task{
		Job: job.NewID(), Attempt: 1, Limits: job.DefaultLimits(), Stdout: io.Discard, Stderr: io.Discard,
		Serve: func(_ context.Context, channel io.ReadWriteCloser) error {
			var hello, result frame.Request
			if err := frame.Read(channel, &hello); err != nil {
				return err
			}
			began := time.Now()
			if err := frame.Write(channel, frame.Job{Method: "job", Params: frame.JobParams{Code: "1"}}); err != nil {
				return err
			}
			if err := frame.Read(channel, &result); err != nil {
				return err
			}
			talked = time.Since(began)
			return frame.Write(channel, frame.Reply{ID: *result.ID, OK: true})
		},
	})
	if err != nil || out.Cause != backends.Exited || out.ExitCode != 0 {
		b.Fatalf("got %+v and error %v, want exit 0", out, err)
	}
	return talked
}

// bareArgs are a sandbox like ours, without control groups and filter.
var bareArgs = strings.Fields(`--unshare-all --unshare-user --disable-userns --cap-drop ALL --clearenv --die-with-parent
	--new-session --hostname guest --uid 1000 --gid 1000 --symlink usr/lib /lib --symlink usr/lib64 /lib64
	--symlink /usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2 /usr/lib64/ld-linux-x86-64.so.2
	--ro-bind /usr/lib/x86_64-linux-gnu /usr/lib/x86_64-linux-gnu --ro-bind /usr/lib/python3 /usr/lib/python3
	--ro-bind /usr/lib/python3.11 /usr/lib/python3.11 --ro-bind /usr/bin/python3.11 /usr/bin/python3.11
	--dir /dev --dev-bind /dev/null /dev/null --size 1048576 --tmpfs /dev/shm --size 1048576 --tmpfs /tmp
	--size 1048576 --tmpfs /workspace --chdir /workspace --remount-ro / -- /usr/bin/python3.11 -I -S -B -c pass`)

func runBare(b *testing.B) {
	cmd := exec.Command("bwrap", bareArgs...)
	cmd.Env, cmd.Dir = []string{}, "/"
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1899999999, Gid: 1899999999}}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Skipf("bwrap alone does not run here: %v: %s", err, out)
	}
}
