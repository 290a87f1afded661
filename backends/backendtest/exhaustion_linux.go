package backendtest

import (
	"testing"
	"time"

	"airlock/backends"
	"airlock/job"
)

// exhaustions are about guests that use up what is not a limit of its own.
func exhaustions() []story {
	return []story{
		{
			name: "descriptors end somewhere", rows: "RX9", hostile: true,
			code: helped(`
held = []
open("one", "w").close()
try:
    while len(held) < 100_000: held.append(os.open("one", os.O_RDONLY))
except OSError as e:
    return [errno.errorcode[e.errno], 16 <= len(held) <= 4096]
return "100,000 descriptors"`),
			check: all(exited(0), refusedBy("EMFILE")),
		},
		{
			name: "pipes, epoll sets and timers end somewhere", rows: "RX18", hostile: true,
			code: helped(`
import select
made = 0
def pipe():
    return [open(fd, closefd=True) for fd in os.pipe()]
for make in (pipe, select.epoll):
    held = []
    try:
        while made < 100_000:
            held.append(make())
            made += 1
        return "100,000 of " + repr(make)
    except OSError as e:
        if e.errno not in (errno.EMFILE, errno.ENFILE, errno.EPERM, errno.ENOSYS, errno.ENOMEM): raise
return 1`),
			check: all(exited(0), value("1")),
		},
		{
			name: "a sparse file of terabytes takes no room", rows: "RX16", hostile: true, enforce: []job.LimitName{job.LimitDisk},
			code: helped(`
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
try:
    with open("/workspace/sparse", "wb") as f: f.truncate(4 << 40)
except OSError as e:
    return e.errno in (errno.EFBIG, errno.ENOSPC, errno.EINVAL)
return os.stat("/workspace/sparse").st_blocks < 64`),
			check: all(exited(0), value("true")),
		},
		{
			name: "zombies are the guest's own", rows: "RX21", hostile: true, limits: job.Limits{Processes: 32},
			enforce: []job.LimitName{job.LimitProcesses},
			code: helped(`
mark()
made = 0
try:
    while made < 1000:
        if os.fork() == 0: os._exit(0)
        made += 1
except OSError as e:
    return [e.errno == errno.EAGAIN, made < 32]
return "1,000 zombies"`),
			check: all(exited(0), value("[true,true]"), refusedProcesses),
		},
		{
			name: "cpu limit: all processors at once", rows: "RX10", hostile: true,
			limits: job.Limits{CPU: job.Duration(time.Second)}, enforce: []job.LimitName{job.LimitCPU},
			code: helped(`
for _ in range(8):
    if os.fork() == 0: break
while True: pass`),
			check: all(ended(backends.OutOfCPU), noResult),
		},
		{
			name: "source that is nested beyond reason", rows: "RX25", hostile: true,
			code: helped(`
for nested in ("(" * 200_000 + ")" * 200_000, "-" * 500_000 + "1", "[" * 5_000 + "]" * 5_000, "a." * 300_000 + "b"):
    child = hasattr(os, "fork")
    if child and os.fork() != 0:
        os.wait()
        continue
    try: compile(nested, "nested", "exec")
    except (MemoryError, RecursionError, SyntaxError, OverflowError): pass
    if child: os._exit(0)
return 1`),
			check: all(exited(0), value("1")),
		},
		{name: "one guest's processes are not counted with another's", rows: "XJ6", act: countedApart, enforce: []job.LimitName{job.LimitProcesses}},
	}
}

// countedApart has a guest use up its processes, and another start some while
// it does.
func countedApart(t *testing.T, s *suite) {
	full, over, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		g := s.run(t, story{
			limits: job.Limits{Processes: 24}, enforce: []job.LimitName{job.LimitProcesses},
			code: helped(`
mark()
n = 0
try:
    while n < 1000:
        if os.fork() == 0: time.sleep(1000)
        n += 1
except OSError: pass
await full()
return n < 24`),
			arrange: func(sg *stage) {
				sg.tools["full"] = func([]byte) any { close(full); <-over; return nil }
			},
		})
		all(exited(0), value("true"))(t, g)
	}()
	select {
	case <-full:
	case <-ended:
		t.Error("the first guest did not stay")
	}
	g := s.run(t, story{
		limits: job.Limits{Processes: 24}, enforce: []job.LimitName{job.LimitProcesses},
		code: helped(`
for _ in range(16):
    if os.fork() == 0: time.sleep(0.2); os._exit(0)
return len([os.wait() for _ in range(16)])`),
	})
	all(exited(0), value("16"))(t, g)
	close(over)
	<-ended
}
