package guestproc_test

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"airlock/backends"
	"airlock/backends/internal/cgroup"
	"airlock/backends/internal/guestproc"
	"airlock/job"
)

func TestCause(t *testing.T) {
	t.Parallel()
	const limit, ours = time.Second, 0xE0A1_0009
	stopped := errors.New("cancelled")
	spent, oom := cgroup.Usage{CPU: limit}, cgroup.Usage{OOMKills: 1}
	for _, tt := range []struct {
		name   string
		ending guestproc.Ending
		code   uint32
		lost   bool
		want   backends.Cause
		signal string
	}{
		{name: "exit", code: 3, want: backends.Exited},
		{name: "exit as Go's runtime that got no memory", code: 2, want: backends.Exited},
		{name: "no memory", ending: guestproc.Ending{Usage: oom}, code: 2, want: backends.OutOfMemory, signal: "SIGKILL"},
		{name: "exit after memory was refused", ending: guestproc.Ending{Usage: oom}, code: 0, want: backends.Exited},
		{name: "exit before we could kill it", ending: guestproc.Ending{Stopped: stopped}, code: 0, want: backends.Exited},
		{name: "our kill", ending: guestproc.Ending{Stopped: stopped}, code: ours, want: backends.Killed, signal: "SIGKILL"},
		{name: "our kill, nothing else known", ending: guestproc.Ending{Stopped: stopped}, lost: true, want: backends.Killed, signal: "SIGKILL"},
		{name: "our watch of its time", ending: guestproc.Ending{CPUReached: true, Usage: spent}, code: ours, want: backends.OutOfCPU, signal: "SIGKILL"},
		{name: "access violation", code: 0xC000_0005, want: backends.Signalled, signal: "SIGSEGV"},
		{name: "abort", code: 0xC000_0409, want: backends.Signalled, signal: "SIGABRT"},
		{name: "another crash", code: 0xC000_001D, want: backends.Signalled, signal: "0xC000001D"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := tt.ending.Outcome(job.Limits{CPU: job.Duration(limit)}, syscall.WaitStatus{ExitCode: tt.code}, !tt.lost, 0)
			if got.Cause != tt.want || got.Signal != tt.signal || tt.signal == "" && got.ExitCode != int(tt.code) {
				t.Errorf("got %s, code %d, signal %q, want %s, %d, %q", got.Cause, got.ExitCode, got.Signal, tt.want, tt.code, tt.signal)
			}
		})
	}
}
