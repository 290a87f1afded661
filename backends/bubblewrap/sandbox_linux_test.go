package bubblewrap_test

import (
	"slices"
	"strings"
	"testing"

	"airlock/backends"
	"airlock/job"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// TestWhatAGuestSees holds the list in the package's comment to the letter.
func TestWhatAGuestSees(t *testing.T) {
	t.Parallel()
	b, _ := open(t)
	got := ran(t, b, `
import os, socket
old = os.umask(0o22)
return {
    "root": sorted(os.listdir("/")), "dev": sorted(os.listdir("/dev")), "airlock": "main.py" in os.listdir("/airlock"),
    "environ": dict(os.environ), "cwd": os.getcwd(), "ids": [os.getuid(), os.getgid(), os.geteuid(), os.getegid()],
    "umask": old, "hostname": socket.gethostname(), "workspace": os.listdir("/workspace"), "tmp": os.listdir("/tmp"),
    "bin": sorted(n for n in os.listdir("/usr/bin") if not n.startswith("python3")), "usr": sorted(os.listdir("/usr")),
    "etc": os.path.isdir("/etc") and os.listdir("/etc") not in ([], ["alternatives"]), "tty": [os.isatty(n) for n in range(3)], "session": os.getsid(0) != 0,
}`, job.Limits{})
	var saw map[string]any
	if err := json.Unmarshal([]byte(got.value), &saw); err != nil {
		t.Fatalf("got value %q, fault %s, stderr %s: %v", got.value, got.fault, got.stderr, err)
	}
	root, _ := saw["root"].([]any)
	for _, name := range root {
		if !strings.Contains(" airlock dev etc lib lib32 lib64 libx32 tmp usr workspace ", " "+name.(string)+" ") {
			t.Errorf("/%s: is there, but is not among what a guest needs", name)
		}
	}
	delete(saw, "root")
	usr, _ := saw["usr"].([]any)
	for _, name := range usr {
		if !strings.Contains(" bin lib lib32 lib64 libx32 local share ", " "+name.(string)+" ") {
			t.Errorf("/usr/%s: is there, but is not among what a guest needs", name)
		}
	}
	delete(saw, "usr")
	want := map[string]any{
		"dev": []any{"full", "null", "random", "shm", "urandom", "zero"}, "airlock": true, "cwd": "/workspace",
		"environ": map[string]any{
			"HOME": "/workspace", "TMPDIR": "/tmp", "PWD": "/workspace", "PATH": "/usr/bin", "LANG": "C.UTF-8",
			"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1",
		},
		"ids": []any{1000.0, 1000.0, 1000.0, 1000.0}, "umask": float64(0o77), "hostname": "guest",
		"workspace": []any{"main.py"}, "tmp": []any{}, "bin": []any{}, "etc": false, "tty": []any{false, false, false}, "session": true,
	}
	if diff := cmp.Diff(want, saw); diff != "" {
		t.Errorf("what the guest sees (-want +got):\n%s", diff)
	}
}

// TestStrayDescriptors: bwrap passes on each descriptor that it is started
// with, and a worker's own start may have left some that are not closed on
// exec.
func TestStrayDescriptors(t *testing.T) {
	b, _ := open(t)
	stray, err := unix.FcntlInt(0, unix.F_DUPFD, 200)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(stray)
	got := ran(t, b, `
import os
def there(n):
    try: os.fstat(n); return True
    except OSError: return False
return [n for n in range(1024) if there(n)]`, job.Limits{})
	if got.value != "[0,1,2,3]" {
		t.Errorf("got descriptors %s, want 0 to 3; %s", got.value, got.fault)
	}
}

func TestHardLimits(t *testing.T) {
	t.Parallel()
	b, _ := open(t)
	got := ran(t, b, `
import resource as r
names = ["CORE", "NOFILE", "STACK", "MEMLOCK", "MSGQUEUE", "SIGPENDING", "RTPRIO", "NICE", "FSIZE", "CPU"]
limits = {n: list(r.getrlimit(getattr(r, "RLIMIT_" + n))) for n in names}
for n in names:
    resource, (soft, hard) = getattr(r, "RLIMIT_" + n), limits[n]
    try:
        r.setrlimit(resource, (hard, hard + 1))
        limits[n] = "raised"
    except ValueError:
        pass
return limits`, job.Limits{Disk: 8 * job.MiB, CPU: 2500e6})
	const want = `{"CORE":[0,0],"NOFILE":[256,256],"STACK":[8388608,8388608],"MEMLOCK":[0,0],"MSGQUEUE":[0,0],` +
		`"SIGPENDING":[256,256],"RTPRIO":[0,0],"NICE":[0,0],"FSIZE":[9437184,9437184],"CPU":[4,5]}`
	if got.value != want {
		t.Errorf("got limits %s, want %s; %s", got.value, want, got.fault)
	}
}

// TestProcessesMeansThat: the job's limit is what its code may have, bwrap's
// own processes not counted.
func TestProcessesMeansThat(t *testing.T) {
	t.Parallel()
	b, caps := open(t)
	needs(t, caps, job.LimitProcesses)
	got := ran(t, b, `
import os, time
pids = []
try:
    while len(pids) < 100:
        pid = os.fork()
        if pid == 0:
            time.sleep(60)
            os._exit(0)
        pids.append(pid)
except OSError as e:
    pass
return len(pids) + 1`, job.Limits{Processes: 7})
	if got.value != "7" {
		t.Errorf("got %s processes, want 7; %s", got.value, got.fault)
	}
	if o := got.outcome; o.ProcessesFull != 1 || o.PeakProcesses != 7 {
		t.Errorf("got %d refusals and a peak of %d, want 1 and 7", o.ProcessesFull, o.PeakProcesses)
	}
}

func TestSmallestLimits(t *testing.T) {
	t.Parallel()
	b, _ := open(t)
	limits := job.MinLimits()
	limits.CPU = job.DefaultLimits().CPU // starting an interpreter takes about 100 ms when the host is busy
	if got := ran(t, b, "return 1 + 1", limits); got.value != "2" || got.outcome.ExitCode != 0 {
		t.Errorf("got value %q, outcome %+v, stderr %q, want 2", got.value, got.outcome, got.stderr)
	}
}

func TestDiskFull(t *testing.T) {
	t.Parallel()
	b, _ := open(t)
	for _, dir := range []string{"/tmp", "/workspace", "/dev/shm"} {
		got := ran(t, b, `
with open("`+dir+`/x", "wb", buffering=0) as f:
    try:
        while True: f.write(bytes(65536))
    except OSError as e:
        return e.errno`, job.Limits{Disk: 2 * job.MiB})
		if got.value != "28" || !got.outcome.DiskFull {
			t.Errorf("%s: got errno %s and full %v, want 28 (ENOSPC) and true; %s", dir, got.value, got.outcome.DiskFull, got.fault)
		}
	}
	got := ran(t, b, `open("/tmp/x", "wb").write(bytes(1 << 20))`, job.Limits{Disk: 2 * job.MiB})
	if got.outcome.DiskFull || got.outcome.ExitCode != 0 {
		t.Errorf("half full: got %+v, want a disk that is not full", got.outcome)
	}
}

func needs(t *testing.T, caps backends.Capabilities, limit job.LimitName) {
	t.Helper()
	if !slices.Contains(caps.Limits, limit) {
		t.Skipf("the %s limit is %s here", limit, caps.Isolated.Limits[limit])
	}
}
