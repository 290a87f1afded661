package backendtest

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"airlock/backends"
	"airlock/job"
)

// complete says that all stories there are can be told here.
const complete = true

// systemStories are those that need fork, signals and a view of the host.
func systemStories() []story {
	return slices.Concat(signals(), families(), channels(), cpuLimits(), memoryLimits(), processLimits(), diskLimits(), strangers(), exhaustions(), liars(), broughtBack(), []story{everyCall(), postureStory(), swapStory()})
}

// signals are about guests that a signal of their own doing ends.
func signals() []story {
	kill := func(name string) string {
		return "import os, signal\nos.kill(os.getpid(), signal." + name + ")\nimport time; time.sleep(1000)"
	}
	return []story{
		{name: "its own SIGSEGV", code: kill("SIGSEGV"), check: all(signalled("SIGSEGV"), noResult)},
		{name: "its own SIGKILL is no limit", rows: "SP9", code: kill("SIGKILL"), check: all(signalled("SIGKILL"), noResult)},
		{name: "its own SIGTERM", code: kill("SIGTERM"), check: all(signalled("SIGTERM"), noResult)},
		{name: "its own SIGSYS", rows: "SP9", code: kill("SIGSYS"), check: all(ended(backends.Signalled, backends.Violated), noResult)},
		{name: "its own SIGXCPU is no cpu limit", rows: "SP9", code: kill("SIGXCPU"), check: all(signalled("SIGXCPU"), noResult)},
		{name: "abort", code: "import os\nos.abort()", check: all(signalled("SIGABRT"), noResult)},
	}
}

// families are about guests that start others.
func families() []story {
	return []story{
		{
			name: "a detached grandchild dies with a cancelled guest", rows: "TO3 XJ3", hostile: true,
			code: helped(`
mark()
detached(lambda: time.sleep(1000))
await look()
os.write(1, b"start")
while True: pass`),
			arrange: func(s *stage) { lookForMarked(s); cancelAtFirstOutput(s) },
			check:   all(ended(backends.Killed), stdout("start")),
		},
		{
			name: "a detached grandchild dies with a guest that ends", rows: "TO3 XJ3", hostile: true,
			code: helped(`
mark()
detached(lambda: time.sleep(1000))
await look()
return 1`),
			arrange: lookForMarked, check: all(exited(0), value("1")),
		},
		{
			name: "the guest is over when its main process is, whoever holds its streams", rows: "TO4",
			code: helped(`
mark()
if os.fork() == 0: time.sleep(1000)
print("done", flush=True)
os._exit(0)`),
			check: all(exited(0), stdout("done\n")),
		},
		{
			name: "a command left in the background", rows: "XJ3 TO3",
			code: helped(`
import subprocess
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)", MARKER])
print("done")`),
			check: all(exited(0), stdout("done\n")),
		},
		{
			name: "children are reaped and their output is the guest's",
			code: helped(`
for i in range(3):
    if os.fork() == 0:
        os.write(1, b"c")
        os._exit(i)
return sorted(os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(3))`),
			check: all(exited(0), value("[0,1,2]"), stdout("ccc")),
		},
		{
			name: "children that ignore every signal", rows: "TO3", hostile: true,
			code: helped(`
mark()
for n in range(1, 32):
    if n not in (signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD): signal.signal(n, signal.SIG_IGN)
for _ in range(5):
    if os.fork() == 0:
        while True: time.sleep(1000)
os.write(1, b"start")
while True: time.sleep(1000)`),
			arrange: cancelAtFirstOutput, check: all(ended(backends.Killed), stdout("start")),
		},
		{
			name: "a guest that stopped itself is still killed", rows: "TO1",
			code: helped(`
os.write(1, b"start")
os.kill(os.getpid(), signal.SIGSTOP)
time.sleep(1000)`),
			arrange: cancelAtFirstOutput, check: all(ended(backends.Killed), stdout("start")),
		},
	}
}

// lookForMarked gives the guest the tool look, with which the host makes sure
// that it can see the guest's processes: else finding none later means
// nothing.
func lookForMarked(s *stage) {
	s.tools["look"] = func([]byte) any {
		if len(marked(s.marker)) == 0 {
			s.Error("the host sees no process of the guest, so that it could not see one that stays")
		}
		by := s.suite.caps.Isolated.Limits[job.LimitMemory]
		if offers(s.suite.caps, job.LimitMemory) && strings.Contains(by, "cgroup") && len(groups()) == 0 {
			s.Error("the host sees no control group of the guest, so that it could not see one that stays")
		}
		return nil
	}
}

// junk is what no frame begins with. Where the channel is no descriptor there
// are functions instead.
const junk = `
import os, time
try: from _airlock import send
except ImportError: send = lambda frame: os.write(3, frame)
send(b"\xff" * 8)
time.sleep(1000)`

// channels are about guests that misuse their channel.
func channels() []story {
	return []story{
		{
			name: "junk on the channel", rows: "BK3 SP2", hostile: true,
			code:  junk,
			check: all(ended(backends.Killed), noResult, breached),
		},
		{
			name: "half a frame, then death", rows: "BK3", code: "import os\nos.write(3, b'\\x00\\x00\\x01\\x00{')\nos._exit(0)",
			check: all(ended(backends.Exited, backends.Killed), noResult, breached),
		},
		{
			name: "the channel ends with the guest, whoever holds it", rows: "TO4",
			code: helped(`
mark()
if os.fork() == 0: time.sleep(1000)
os.close(1)
os.close(2)
os._exit(0)`),
			check: all(exited(0), noResult),
		},
		{
			name:  "a guest that closes its channel and goes on",
			code:  "import os\nos.close(3)\nos.write(1, b'on')\nos._exit(4)",
			check: all(exited(4), stdout("on"), noResult),
		},
	}
}

func breached(t *testing.T, g *seen) {
	t.Helper()
	if g.host.breach == nil {
		t.Error("Serve saw no breach, want the junk that the guest wrote")
	}
}

// strangers are about what is there for a guest that should not be.
func strangers() []story {
	return []story{
		{
			name: "no descriptor but the streams and the channel", rows: "XJ4",
			code: helped(`
open_ones = []
for fd in range(4096):
    try: os.fstat(fd)
    except OSError: continue
    open_ones.append(fd)
return [fd for fd in open_ones if fd > 3]`),
			arrange: inheritable, check: all(exited(0), value("[]")),
		},
		{
			name: "what a guest of an earlier run left is not seen", rows: "XJ1", act: cleanSlate,
		},
		{
			name: "a guest that kills its channel's reader is nobody's hang",
			code: helped("os.close(0)\nos.close(1)\nos.close(2)\nos.close(3)\ntime.sleep(1000)"),
			serve: func(s *stage, ctx context.Context, channel io.ReadWriteCloser) error {
				return errors.Join(s.host.serve(ctx, channel), errEnough)
			},
			check: all(ended(backends.Killed), noResult),
		},
	}
}

// cleanSlate has an interpreter changed by one guest and looked at by the
// next: no state of Python's may pass from one to the other. What passes by
// files is a story about walls.
func cleanSlate(t *testing.T, s *suite) {
	g := s.run(t, story{code: "import builtins, json, sys\nbuiltins.LEFT = json.LEFT = sys.LEFT = 1\nreturn 1"})
	value("1")(t, g)
	g = s.run(t, story{code: "import builtins, json, sys\nreturn [hasattr(m, 'LEFT') for m in (builtins, json, sys)]"})
	value("[false,false,false]")(t, g)
}
