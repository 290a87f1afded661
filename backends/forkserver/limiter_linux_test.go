package forkserver_test

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"airlock/backends"
	"airlock/backends/forkserver"
	"airlock/job"

	"golang.org/x/sys/unix"
)

// late has a guest that stands ready held to limits before it gets its job.
func late(b *forkserver.Backend, g guest, l job.Limits) guest {
	task := b.Parks(backends.Task{Limits: l.WithDefaults()})
	g.limits = task.Limits
	g.spoke = func(channel io.ReadWriteCloser) error { return channel.(backends.Limiter).Limit(l.WithDefaults()) }
	return g
}

// TestLateLimits: those that come with the job hold, raised or lowered.
func TestLateLimits(t *testing.T) {
	t.Parallel()
	b, caps := open(t, forkserver.Config{})
	for _, limit := range []job.LimitName{job.LimitMemory, job.LimitCPU, job.LimitProcesses} {
		needs(t, caps, limit)
	}
	fork := `
import os, signal
n = 0
try:
    while n < 200:
        if os.fork() == 0: signal.pause()
        n += 1
except OSError: pass
return n + 1`
	memory := "x = bytearray(%d << 20)\nreturn 'held'"
	parked := job.DefaultLimits()
	for _, tt := range []struct {
		name, code, value string
		limits            job.Limits
		cause             backends.Cause
	}{
		{"memory lowered", fmt.Sprintf(memory, parked.Memory/job.MiB/2), "", job.Limits{Memory: parked.Memory / 4}, backends.OutOfMemory},
		{"memory raised", fmt.Sprintf(memory, parked.Memory/job.MiB*3/2), `"held"`, job.Limits{Memory: 2 * parked.Memory}, backends.Exited},
		{"memory as it is", fmt.Sprintf(memory, parked.Memory/job.MiB*3/2), "", job.Limits{}, backends.OutOfMemory},
		{"processes lowered", fork, "5", job.Limits{Processes: 5}, backends.Exited},
		{"processes raised", fork, "100", job.Limits{Processes: 100}, backends.Exited},
		{"cpu lowered", "while True: pass", "", job.Limits{CPU: 300e6}, backends.OutOfCPU},
		{"cpu lowered to less than a bound can be", "import time\nwhile True: time.sleep(0)", "", job.Limits{CPU: 1200e6}, backends.OutOfCPU},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := late(b, guest{code: tt.code}, tt.limits).run(t, b)
			if s.value != tt.value || s.outcome.Cause != tt.cause {
				t.Errorf("got value %q, outcome %+v, want %q and %s; %s", s.value, s.outcome, tt.value, tt.cause, s.fault)
			}
			if want := tt.limits.CPU.Std(); want > 0 && (s.outcome.CPU < want || s.outcome.CPU > want+time.Second) {
				t.Errorf("got %s of processor time, want about %s", s.outcome.CPU, want)
			}
			if tt.limits.Processes > 0 && (s.outcome.ProcessesFull == 0 || s.outcome.PeakProcesses != tt.limits.Processes) {
				t.Errorf("got %d refusals and a peak of %d, want %d held", s.outcome.ProcessesFull, s.outcome.PeakProcesses, tt.limits.Processes)
			}
			works(t, b)
		})
	}
	closesClean(t, b)
}

// TestLimitBeforeHello: the guest is not known then, and what is bounded is to
// be it and nobody else.
func TestLimitBeforeHello(t *testing.T) {
	t.Parallel()
	b, _ := open(t, forkserver.Config{})
	var before, after unix.Rlimit
	g := guest{code: "import resource\nreturn list(resource.getrlimit(resource.RLIMIT_CPU))", limits: b.Parks(backends.Task{Limits: job.DefaultLimits()}).Limits}
	g.first = func(channel io.ReadWriteCloser) error {
		if err := unix.Prlimit(0, unix.RLIMIT_CPU, nil, &before); err != nil {
			return err
		}
		err := channel.(backends.Limiter).Limit(job.Limits{CPU: 7e9}.WithDefaults())
		return errors.Join(err, unix.Prlimit(0, unix.RLIMIT_CPU, nil, &after))
	}
	s := g.run(t, b)
	if s.value != "[8,9]" {
		t.Errorf("got a bound of %s seconds on the guest, want 8 and 9; %s", s.value, s.fault)
	}
	if before != after {
		t.Errorf("got this process's own bound %v, then %v", before, after)
	}
}

// TestUsageBeginsWithTheJob: what others used in the slot, and what the guest
// did before its job came, is not the job's.
func TestUsageBeginsWithTheJob(t *testing.T) {
	t.Parallel()
	b, caps := open(t, forkserver.Config{})
	needs(t, caps, job.LimitCPU)
	needs(t, caps, job.LimitMemory)
	g := guest{code: "x = bytearray(100 << 20)\nimport time\nwhile time.process_time() < 1.5: pass\nreturn 1", limits: job.Limits{Memory: 200 * job.MiB}}
	first := g.run(t, b)
	if first.outcome.CPU < 1500*time.Millisecond || first.outcome.PeakMemory < 100*job.MiB {
		t.Fatalf("got %+v, want 1.5 s and 100 MiB used", first.outcome)
	}
	slots := treeOf(t, b).slots()
	second := late(b, guest{code: "return 1"}, job.Limits{}).run(t, b)
	if o := second.outcome; o.CPU <= 0 || o.CPU > time.Second || o.PeakMemory <= 0 || o.PeakMemory > 50*job.MiB {
		t.Errorf("got %s and %s for a job that does nothing", o.CPU, o.PeakMemory)
	}
	if now := treeOf(t, b).slots(); fmt.Sprint(now) != fmt.Sprint(slots) {
		t.Errorf("got slots %v, then %v: this test proves nothing", slots, now)
	}
}
