package forkserver_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"

	"airlock/backends"
	"airlock/backends/forkserver"
	"airlock/job"
)

// jobs is how many jobs each take all their memory.
var jobs = flag.Int("jobs", 200, "how many jobs TestManyOutOfMemory runs; the bar is 1000")

// TestManyOutOfMemory: each of many jobs that use all their memory ends as one
// that did, and no other does.
func TestManyOutOfMemory(t *testing.T) {
	t.Parallel()
	b, caps := open(t, forkserver.Config{})
	needs(t, caps, job.LimitMemory)
	limits := job.Limits{Memory: 64 * job.MiB, Disk: job.GiB}
	// By its own memory, by its files, by its children's.
	codes := []string{
		"x = []\nwhile True: x.append(bytearray(1 << 20))",
		"f = open('/tmp/x', 'wb')\nwhile True: f.write(bytes(1 << 20))",
		"import os, time\nx = []\nfor n in range(5):\n    if os.fork() == 0:\n        x = bytearray(10 << 20)\n        time.sleep(60)\nwhile True: x.append(bytearray(1 << 20))",
	}
	var work sync.WaitGroup
	for worker := range 2 {
		work.Go(func() {
			for n := worker; n < *jobs; n += 2 {
				s, err := guest{code: codes[n%5%3], limits: limits}.try(t.Context(), b)
				if err != nil || s.outcome.Cause != backends.OutOfMemory || s.outcome.OOMKills == 0 {
					t.Errorf("job %d: got %+v, error %v, want out of memory", n, s.outcome, err)
				}
				if n%20 == 0 {
					works(t, b)
				}
			}
		})
	}
	work.Wait()
	works(t, b)
	closesClean(t, b)
}

// TestHostileGuests: however a guest ends, it is told as what it was, and the
// next is as if it had not been; a slot of which that is not certain is used no
// more.
func TestHostileGuests(t *testing.T) {
	t.Parallel()
	b, caps := open(t, forkserver.Config{})
	for _, tt := range []struct {
		name, code   string
		cause        backends.Cause
		exit         int
		signal       string
		limits       job.Limits
		keeps, stays bool // the slot; the guest, until it is cancelled
	}{
		{name: "kills all", code: "import os, signal\nfor p in range(3):\n    if os.fork() == 0: signal.pause()\nos.kill(-1, signal.SIGKILL)\nos._exit(3)", cause: backends.Exited, exit: 3},
		{name: "kills the first process", code: "import os, signal\nfor s in range(1, 65):\n    try: os.kill(1, s)\n    except OSError: pass\nos._exit(4)", cause: backends.Exited, exit: 4, keeps: true},
		{name: "closes its channel", code: "import os\nos.close(3)\nos._exit(5)", cause: backends.Exited, exit: 5, keeps: true},
		{name: "closes everything", code: "import os\nos.closerange(0, 256)\nos._exit(6)", cause: backends.Exited, exit: 6, keeps: true},
		{name: "stops itself", code: "print('up')\nimport os, signal\nos.kill(os.getpid(), signal.SIGSTOP)", cause: backends.Killed, signal: "SIGKILL", stays: true, keeps: true},
		{name: "stops with children", code: "import os, signal\nfor _ in range(3):\n    if os.fork() == 0: os.kill(os.getpid(), signal.SIGSTOP)\nprint('up')\nos.kill(os.getpid(), signal.SIGSTOP)", cause: backends.Killed, signal: "SIGKILL", stays: true},
		{name: "goes on without its channel", code: "import os, time\nos.close(3)\nprint('up')\nwhile True: time.sleep(1)", cause: backends.Killed, signal: "SIGKILL", stays: true, keeps: true},
		{name: "forks without end", code: "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass", cause: backends.OutOfCPU, signal: "SIGKILL", limits: job.Limits{Processes: 30, CPU: 500e6}},
		{name: "breaks the protocol", code: "import os, time\nos.write(3, b'\\xff' * 8)\ntime.sleep(60)", cause: backends.Killed, signal: "SIGKILL"},
		{name: "aborts", code: "import os\nos.abort()", cause: backends.Signalled, signal: "SIGABRT"},
		{name: "faults", code: "import ctypes\nctypes.string_at(0)", cause: backends.Signalled, signal: "SIGSEGV"},
		{name: "terminates itself", code: "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)", cause: backends.Signalled, signal: "SIGTERM"},
		{name: "kills itself", code: "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", cause: backends.Signalled, signal: "SIGKILL"},
		{name: "is stopped by the filter", code: "import ctypes\nctypes.CDLL(None).ptrace(0, 0, 0, 0)", cause: backends.Violated, signal: "SIGSYS"},
		{name: "exits as if unconfined", code: "import os\nos._exit(99)", cause: backends.Exited, exit: 99, keeps: true},
		{name: "exits as if killed", code: "import os\nos._exit(137)", cause: backends.Exited, exit: 137, keeps: true},
		{name: "uses up its time", code: "while True: pass", cause: backends.OutOfCPU, signal: "SIGKILL", limits: job.Limits{CPU: 300e6}, keeps: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.limits.CPU != 0 {
				needs(t, caps, job.LimitCPU)
			}
			works(t, b)
			before := treeOf(t, b).slots()
			r := guest{code: tt.code, limits: tt.limits}.start(t, b)
			if tt.stays {
				r.cancel()
			}
			s, err := r.end()
			if err != nil || s.outcome.Cause != tt.cause || s.outcome.ExitCode != tt.exit || s.outcome.Signal != tt.signal {
				t.Errorf("got %+v, error %v, stderr %q, want %s, code %d, signal %q", s.outcome, err, s.stderr, tt.cause, tt.exit, tt.signal)
			}
			works(t, b)
			if kept := slices.Equal(before, treeOf(t, b).slots()); kept != tt.keeps {
				t.Errorf("got the slot kept %v, want %v", kept, tt.keeps)
			}
		})
	}
	closesClean(t, b)
}

// TestDaemonsDoNotFillUp: what a guest leaves behind is gone with it, and while
// it runs its dead do not count.
func TestDaemonsDoNotFillUp(t *testing.T) {
	t.Parallel()
	b, _ := open(t, forkserver.Config{})
	s := ran(t, b, `
import os
for n in range(500):
    if os.fork() == 0:
        if os.fork() == 0:
            os.setsid()
        os._exit(0)
    os.wait()
for n in range(5):
    if os.fork() == 0:
        if os.fork() == 0:
            import time
            os.setsid()
            time.sleep(600)
        os._exit(0)
    os.wait()
return "done"`, job.Limits{Processes: 20})
	if s.value != `"done"` {
		t.Errorf("got %q, outcome %+v; %s", s.value, s.outcome, s.fault)
	}
	it := treeOf(t, b)
	if left := it.guests(); len(left) > 0 {
		t.Errorf("got %v left", left)
	}
	if dead := zombies(it.launcher); len(dead) > 0 {
		t.Errorf("got the dead %v unburied", dead)
	}
	works(t, b)
	closesClean(t, b)
}

// TestNothingGrows: many guests leave the worker with as many descriptors, and
// the tree with as many processes, as one.
func TestNothingGrows(t *testing.T) {
	b, _ := open(t, forkserver.Config{MaxGuests: 5})
	count := func() string {
		it := treeOf(t, b)
		works(t, b)
		return fmt.Sprint(descriptors(t), len(it.slots()), len(zombies(it.launcher)), len(groups(fmt.Sprintf("-%d-", os.Getpid()))))
	}
	works(t, b)
	want := count()
	for n := range 40 {
		switch n % 3 {
		case 0:
			works(t, b)
		case 1:
			ran(t, b, "import os\nos.abort()", job.Limits{})
		case 2:
			ran(t, b, "import os\nos.fork()\nos._exit(0)", job.Limits{})
		}
	}
	var got string
	for range 100 { // the kernel buries the dead behind our back
		if got = count(); got == want {
			return
		}
	}
	t.Errorf("got %s descriptors, slots, zombies and groups, want %s", got, want)
}

func needs(t *testing.T, caps backends.Capabilities, limit job.LimitName) {
	t.Helper()
	if !slices.Contains(caps.Limits, limit) {
		t.Skipf("the %s limit is %s here", limit, caps.Isolated.Limits[limit])
	}
}
