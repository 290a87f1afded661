//go:build unix

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
	const (
		limit = time.Second
		core  = 0x80
	)
	stopped := errors.New("cancelled")
	exit := func(code int) syscall.WaitStatus { return syscall.WaitStatus(code << 8) }
	signal := func(s syscall.Signal) syscall.WaitStatus { return syscall.WaitStatus(s) }
	spent, oom := cgroup.Usage{CPU: limit}, cgroup.Usage{OOMKills: 1, CPU: time.Millisecond}
	for _, tt := range []struct {
		name   string
		ending guestproc.Ending
		status syscall.WaitStatus
		lost   bool
		want   backends.Cause
		code   int
		signal string
	}{
		{name: "exit", status: exit(3), want: backends.Exited, code: 3},
		{name: "exit with a signal's number", status: exit(137), want: backends.Exited, code: 137},
		{name: "exit with timeout's number", status: exit(124), want: backends.Exited, code: 124},
		{name: "exit after a child died for memory", ending: guestproc.Ending{Usage: oom}, status: exit(0), want: backends.Exited},
		{name: "exit after all its time", ending: guestproc.Ending{Usage: spent}, status: exit(0), want: backends.Exited},
		{name: "exit before we could kill it", ending: guestproc.Ending{Stopped: stopped}, status: exit(0), want: backends.Exited},
		{name: "segmentation fault", status: signal(syscall.SIGSEGV) | core, want: backends.Signalled, signal: "SIGSEGV"},
		{name: "segmentation fault before we could kill it", ending: guestproc.Ending{Stopped: stopped}, status: signal(syscall.SIGSEGV), want: backends.Signalled, signal: "SIGSEGV"},
		{name: "its own kill", status: signal(syscall.SIGKILL), want: backends.Signalled, signal: "SIGKILL"},
		{name: "our kill", ending: guestproc.Ending{Stopped: stopped}, status: signal(syscall.SIGKILL), want: backends.Killed, signal: "SIGKILL"},
		{name: "our kill, nothing else known", ending: guestproc.Ending{Stopped: stopped}, lost: true, want: backends.Killed, signal: "SIGKILL"},
		{name: "out of memory", ending: guestproc.Ending{Usage: oom}, status: signal(syscall.SIGKILL), want: backends.OutOfMemory, signal: "SIGKILL"},
		{name: "out of memory, nothing else known", ending: guestproc.Ending{Usage: oom}, lost: true, want: backends.OutOfMemory, signal: "SIGKILL"},
		{name: "crash after a child died for memory", ending: guestproc.Ending{Usage: oom}, status: signal(syscall.SIGABRT), want: backends.Signalled, signal: "SIGABRT"},
		{name: "our watch of its time", ending: guestproc.Ending{CPUReached: true, Usage: spent}, status: signal(syscall.SIGKILL), want: backends.OutOfCPU, signal: "SIGKILL"},
		{name: "exit before our watch could kill it", ending: guestproc.Ending{CPUReached: true, Usage: spent}, status: exit(0), want: backends.Exited},
		{name: "the kernel's limit of its time", ending: guestproc.Ending{Usage: spent}, status: signal(syscall.SIGXCPU), want: backends.OutOfCPU, signal: "SIGXCPU"},
		{name: "the kernel's hard limit of its time", ending: guestproc.Ending{Usage: spent}, status: signal(syscall.SIGKILL), want: backends.OutOfCPU, signal: "SIGKILL"},
		{name: "its own SIGXCPU", ending: guestproc.Ending{Usage: cgroup.Usage{CPU: time.Millisecond}}, status: signal(syscall.SIGXCPU), want: backends.Signalled, signal: "SIGXCPU"},
		{name: "the filter", status: signal(syscall.SIGSYS) | core, want: backends.Violated, signal: "SIGSYS"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := tt.ending.Outcome(job.Limits{CPU: job.Duration(limit)}, tt.status, !tt.lost, 2)
			if got.Cause != tt.want || got.ExitCode != tt.code || got.Signal != tt.signal {
				t.Errorf("got %s, code %d, signal %q, want %s, %d, %q", got.Cause, got.ExitCode, got.Signal, tt.want, tt.code, tt.signal)
			}
		})
	}
}

func TestOutcomeCounts(t *testing.T) {
	t.Parallel()
	e := guestproc.Ending{Usage: cgroup.Usage{CPU: 5, PeakMemory: 6, PeakProcesses: 9, OOMKills: 7, ProcessesFull: 8}}
	got := e.Outcome(job.DefaultLimits(), 0, true, 2)
	want := backends.Outcome{Cause: backends.Exited, CPU: 5, PeakMemory: 6, PeakProcesses: 7, OOMKills: 7, ProcessesFull: 8}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
