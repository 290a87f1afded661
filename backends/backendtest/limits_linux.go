package backendtest

import (
	"testing"
	"time"

	"airlock/backends"
	"airlock/job"

	"github.com/go-json-experiment/json"
)

func cpuLimits() []story {
	short := job.Limits{CPU: job.Duration(time.Second)}
	cpu := []job.LimitName{job.LimitCPU}
	return []story{
		{
			name: "cpu limit: a busy loop", rows: "TO12", hostile: true, limits: short, enforce: cpu,
			code:  "import os\nos.write(1, b'start')\nwhile True: pass",
			check: all(ended(backends.OutOfCPU), stdout("start"), noResult, usedCPU(500*time.Millisecond)),
		},
		{
			name: "cpu limit: a loop that handles SIGXCPU", rows: "TO12", hostile: true, limits: short, enforce: cpu,
			code:  "import signal\nfor n in (signal.SIGXCPU, signal.SIGTERM): signal.signal(n, signal.SIG_IGN)\nwhile True: pass",
			check: all(ended(backends.OutOfCPU), noResult),
		},
		{
			name: "cpu limit: the sum over children, each of them below it", rows: "TO12", hostile: true, limits: short, enforce: cpu,
			code: helped(`
for _ in range(20):
    if os.fork() == 0:
        while time.process_time() < 0.4 * SLOWNESS: pass
        os._exit(0)
    os.wait()
return "more than 8 s of cpu, and still here"`),
			check: all(ended(backends.OutOfCPU), noResult),
		},
		{
			name: "cpu limit: sleeping costs nothing", limits: short, enforce: cpu,
			code: "import time\ntime.sleep(1.5)\nreturn 1", check: all(exited(0), value("1")),
		},
		{
			name: "cpu limit: a fork bomb", rows: "RX7", hostile: true, limits: job.Limits{CPU: short.CPU, Processes: 32},
			enforce: []job.LimitName{job.LimitCPU, job.LimitProcesses},
			code: helped(`
mark()
while True:
    try: os.fork()
    except OSError: pass`),
			check: all(ended(backends.OutOfCPU), noResult),
		},
	}
}

func usedCPU(least time.Duration) check {
	return func(t *testing.T, g *seen) {
		t.Helper()
		if g.outcome.CPU < least {
			t.Errorf("got %v of cpu, want at least %v, which the guest has used", g.outcome.CPU, least)
		}
	}
}

func memoryLimits() []story {
	small := job.Limits{Memory: 64 * job.MiB, Disk: 48 * job.MiB}
	memory := []job.LimitName{job.LimitMemory}
	return []story{
		{
			name: "memory limit: one process", rows: "RX1", hostile: true, limits: small, enforce: memory,
			code:  "import os\nos.write(1, b'start')\nx = b'x' * (300 << 20)\nreturn len(x)",
			check: all(outOfMemory, stdout("start"), peakBelow(80*job.MiB)),
		},
		{
			name: "memory limit: by and by", rows: "RX1", hostile: true, limits: small, enforce: memory,
			code:  "x = []\nwhile True: x.append(b'x' * (1 << 20))",
			check: outOfMemory,
		},
		{
			name: "memory limit: the sum over processes, each of them below it", rows: "RX1", hostile: true, limits: small, enforce: memory,
			code: helped(`
mark()
for _ in range(8):
    if os.fork() == 0:
        x = b"x" * (30 << 20)
        time.sleep(1000)
died = os.wait()
return "a child was killed"`),
			check: oomKilled,
		},
		{
			name: "memory limit: a child that dies of it, and a guest that survives", rows: "RX1", limits: small, enforce: memory, hostile: true,
			code: helped(`
if os.fork() == 0:
    x = b"x" * (300 << 20)
    os._exit(0)
os.wait()
return 1`),
			check: all(ended(backends.Exited, backends.OutOfMemory), oomKilled),
		},
		{
			name: "memory limit: files count", rows: "RX4", hostile: true, limits: small, enforce: append(memory, job.LimitDisk),
			code: helped(`
with open("/tmp/ballast", "wb") as f:
    for _ in range(40): f.write(b"x" * (1 << 20))
x = b"x" * (40 << 20)
return "80 MiB held, of 64"`),
			check: all(ended(backends.OutOfMemory), noResult, oomKilled),
		},
		{
			name: "memory limit: what fits is not touched", limits: job.Limits{Memory: 128 * job.MiB}, enforce: memory,
			code: "x = b'x' * (64 << 20)\nreturn len(x)", check: all(exited(0), value("67108864"), peakBelow(128*job.MiB)),
		},
		{
			name: "memory limit: a refused allocation is an exception", rows: "RX5", limits: small, enforce: memory,
			code: "try:\n    x = bytearray(1 << 50)\nexcept (MemoryError, OverflowError):\n    return 'refused'", check: all(exited(0), value(`"refused"`)),
		},
	}
}

// outOfMemory wants a guest that its memory's limit ended.
func outOfMemory(t *testing.T, g *seen) {
	t.Helper()
	if g.plain {
		all(exited(1), raised("MemoryError"))(t, g)
		return
	}
	all(ended(backends.OutOfMemory), noResult, oomKilled)(t, g)
}

func oomKilled(t *testing.T, g *seen) {
	t.Helper()
	if g.outcome.OOMKills == 0 {
		t.Errorf("got no kill for memory (%+v), want at least one", g.outcome)
	}
}

func peakBelow(most job.Size) check {
	return func(t *testing.T, g *seen) {
		t.Helper()
		if g.outcome.PeakMemory <= job.MiB || g.outcome.PeakMemory > most {
			t.Errorf("got a peak of %s, want more than 1MiB and at most %s", g.outcome.PeakMemory, most)
		}
	}
}

func processLimits() []story {
	few := job.Limits{Processes: 16}
	processes := []job.LimitName{job.LimitProcesses}
	return []story{
		{
			name: "process limit: children", rows: "RX7", hostile: true, limits: few, enforce: processes,
			code: helped(`
mark()
n = 0
try:
    while n < 200:
        if os.fork() == 0: time.sleep(1000)
        n += 1
except OSError as e:
    return {"children": n, "again": e.errno == errno.EAGAIN}
return "200 children, of 16"`),
			check: all(exited(0), atMostProcesses(16)),
		},
		{
			name: "process limit: threads", rows: "RX8", hostile: true, limits: few, enforce: processes,
			code: helped(`
import threading
n = 0
try:
    while n < 200:
        threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
        n += 1
except RuntimeError as e:
    os.write(1, b"%d" % n)
    os._exit(0)
os._exit(1)`),
			check: all(exited(0), noResult, refusedProcesses),
		},
		{
			name: "process limit: what fits is not touched", limits: few, enforce: processes,
			code: helped(`
import threading
threads = [threading.Thread(target=time.sleep, args=(0.05,)) for _ in range(8)]
for t in threads: t.start()
for t in threads: t.join()
return len(threads)`),
			check: all(exited(0), value("8")),
		},
	}
}

func atMostProcesses(most int) check {
	return func(t *testing.T, g *seen) {
		t.Helper()
		doc := returned(t, g)
		var got struct {
			Children int
			Again    bool
		}
		err := json.Unmarshal(doc, &got, json.MatchCaseInsensitiveNames(true))
		if err != nil || got.Children < 1 || got.Children >= most || !got.Again {
			t.Errorf("got value %s, want fewer than %d children and EAGAIN for the next", doc, most)
		}
		refusedProcesses(t, g)
	}
}

func refusedProcesses(t *testing.T, g *seen) {
	t.Helper()
	if g.outcome.ProcessesFull == 0 {
		t.Error("got ProcessesFull 0, want at least 1")
	}
}

func diskLimits() []story {
	fill := func(dir string) string {
		return helped(`
n = 0
try:
    with open("` + dir + `/big", "wb", buffering=0) as f:
        while n < 64 << 20: n += f.write(b"x" * 65536)
except OSError as e:
    return [errno.errorcode[e.errno], 1 << 20 <= n <= 8 << 20]
return "64 MiB written, of 8"`)
	}
	limits := job.Limits{Disk: 8 * job.MiB}
	disk := []job.LimitName{job.LimitDisk}
	return []story{
		{name: "disk limit: /tmp", rows: "FW3 RX4", hostile: true, limits: limits, enforce: disk, code: fill("/tmp"), check: all(exited(0), refusedBy("ENOSPC"), diskFull)},
		{name: "disk limit: /workspace", rows: "FW3", hostile: true, limits: limits, enforce: disk, code: fill("/workspace"), check: all(exited(0), refusedBy("ENOSPC"), diskFull)},
		{
			name: "disk limit: nowhere else can be written without bound", rows: "FW3 RX19", limits: limits, enforce: disk,
			code: program("elsewhere.py"), check: all(exited(0), value("[]")),
		},
		{
			name: "disk limit: many empty files end somewhere", rows: "FW3", hostile: true, limits: limits, enforce: append(disk, job.LimitMemory),
			code: helped(`
try:
    for n in range(2_000_000): open(f"/tmp/{n}", "w").close()
except OSError as e:
    return [errno.errorcode[e.errno], n > 100]
return "two million files"`),
			check: func(t *testing.T, g *seen) {
				if g.outcome.Cause == backends.Exited {
					refusedBy("ENOSPC")(t, g)
				} else {
					ended(backends.OutOfMemory, backends.OutOfCPU)(t, g)
				}
			},
		},
	}
}

// refusedBy wants this error, and with it that there had been enough.
func refusedBy(name string) check {
	return func(t *testing.T, g *seen) {
		t.Helper()
		if got := string(returned(t, g)); got != `["`+name+`",true]` && !(g.plain && got == `["EIO",true]`) {
			t.Errorf("got %s, want %s after enough", got, name)
		}
	}
}

func diskFull(t *testing.T, g *seen) {
	t.Helper()
	if !g.outcome.DiskFull {
		t.Error("got DiskFull false, want true: the file is still there")
	}
}
