package forkserver_test

import (
	"fmt"
	"os/exec"
	"slices"
	"sync"
	"testing"

	"airlock/backends"
	"airlock/backends/bubblewrap"
	"airlock/backends/forkserver"
	"airlock/job"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
)

// everyRandom draws from each source that a guest has, from the ones that
// modules of the template have drawn from already too.
const everyRandom = `
import os, random, secrets, ssl, tempfile, uuid
drawn = {
    "random": random.random(), "getrandbits": random.getrandbits(64), "Random": random.Random().random(),
    "uuid4": str(uuid.uuid4()), "uuid1": str(uuid.uuid1()), "token_hex": secrets.token_hex(), "urandom": os.urandom(16).hex(),
    "getrandom": os.getrandom(16).hex(), "RAND_bytes": ssl.RAND_bytes(16).hex(), "mkdtemp": tempfile.mkdtemp(),
    "mktemp": tempfile.NamedTemporaryFile().name,
}
`

// TestRandomDiffers: no source of random values gives two guests the same.
func TestRandomDiffers(t *testing.T) {
	t.Parallel()
	b, _ := open(t, forkserver.Config{})
	allDiffer(t, draw(t, b, 200, guest{code: everyRandom + "return drawn"}))
}

// TestRandomDiffersWithTemplate: nor does one that a preloaded module keeps.
func TestRandomDiffersWithTemplate(t *testing.T) {
	t.Parallel()
	if out, err := exec.Command("/usr/bin/python3", "-c", "import numpy").CombinedOutput(); err != nil {
		required(t, "numpy", fmt.Sprintf("the system's Python has no numpy: %v: %s", err, out))
	}
	b, caps := open(t, forkserver.Config{
		Python: "/usr/bin/python3", Templates: map[string][]string{"data": {"numpy", "ssl", "tempfile", "uuid", "secrets", "hashlib", "multiprocessing"}},
	})
	if caps.Labels[job.TemplateLabel+"data"] != job.TemplateHere {
		t.Fatalf("got labels %v, want the template's", caps.Labels)
	}
	allDiffer(t, draw(t, b, 30, guest{template: "data", code: `
import sys
loaded = {"numpy", "ssl", "tempfile"} <= sys.modules.keys()
` + everyRandom + `
import multiprocessing, numpy
drawn |= {"numpy": numpy.random.random(), "numpy ints": numpy.random.randint(1 << 60), "default_rng": numpy.random.default_rng().random(), "authkey": bytes(multiprocessing.current_process().authkey).hex()}
return drawn if loaded else "the modules were not preloaded"`}))
}

// draw has as many guests draw, two at a time.
func draw(t *testing.T, b backends.Backend, count int, g guest) []map[string]any {
	t.Helper()
	var mu sync.Mutex
	var all []map[string]any
	var work sync.WaitGroup
	for range 2 {
		work.Go(func() {
			for range count / 2 {
				s, err := g.try(t.Context(), b)
				var drawn map[string]any
				if err == nil {
					err = json.Unmarshal([]byte(s.value), &drawn)
				}
				if err != nil {
					t.Errorf("got %v, value %q; %s\n%s", err, s.value, s.fault, s.stderr)
					return
				}
				mu.Lock()
				all = append(all, drawn)
				mu.Unlock()
			}
		})
	}
	work.Wait()
	if len(all) != count && !t.Failed() {
		t.Errorf("got %d draws, want %d", len(all), count)
	}
	return all
}

func allDiffer(t *testing.T, all []map[string]any) {
	t.Helper()
	before := map[string]int{}
	for n, drawn := range all {
		for source, value := range drawn {
			key := fmt.Sprintf("%s %v", source, value)
			if other, known := before[key]; known {
				t.Errorf("guests %d and %d both drew %s", other, n, key)
			}
			before[key] = n
		}
	}
}

// state is what a program can ask its interpreter about itself. What is left
// out on purpose is listed in the package's comment.
const state = `
import sys, os, signal, warnings, threading, asyncio, locale, gc, atexit, faulthandler, builtins, resource, io, logging, time
frames, f = [], sys._getframe()
while f:
    frames.append(f.f_code.co_name + " " + str(sorted(k for k, v in f.f_locals.items() if "forks" in repr(v) and k not in ("frames", "__doc__")))); f = f.f_back
def kind(x): return type(x).__module__ + "." + type(x).__qualname__
def stream(s):
    return [s.name, s.mode, s.encoding, s.errors, s.line_buffering, s.write_through, s.isatty(), s.fileno(), s.seekable(), s.readable(), s.writable(), kind(s), kind(getattr(s, "buffer", None)), str(s.newlines)]
main = sys.modules["__main__"]
found = {
    "argv": sys.argv, "orig_argv": sys.orig_argv, "executable": [sys.executable, sys.prefix, sys.exec_prefix, sys.base_prefix, sys._base_executable],
    "flags": repr(sys.flags), "xoptions": repr(sys._xoptions), "warnoptions": sys.warnoptions, "path": sys.path,
    "meta_path": [repr(x) for x in sys.meta_path], "path_hooks": len(sys.path_hooks),
    "hooks": [sys.excepthook is sys.__excepthook__, sys.displayhook is sys.__displayhook__, sys.unraisablehook is sys.__unraisablehook__, threading.excepthook is threading.__excepthook__, sys.gettrace() is None, sys.getprofile() is None, sys.breakpointhook is sys.__breakpointhook__],
    "signals": {s.name: str(signal.getsignal(s)).split(" at ")[0] for s in signal.Signals}, "mask": [str(s) for s in signal.pthread_sigmask(signal.SIG_BLOCK, [])],
    "wakeup": signal.set_wakeup_fd(-1), "itimer": signal.getitimer(signal.ITIMER_REAL), "alarm": signal.alarm(0),
    "policy": [kind(asyncio.get_event_loop_policy()), asyncio.get_event_loop_policy()._local.__dict__.get("_loop") is None, asyncio.get_event_loop_policy()._local.__dict__.get("_set_called", False)],
    "loop": asyncio._get_running_loop() is None, "tasks": len(asyncio.all_tasks.__globals__["_scheduled_tasks"] if "_scheduled_tasks" in asyncio.all_tasks.__globals__ else asyncio.all_tasks.__globals__["_all_tasks"]),
    "warnings": [str(x) for x in warnings.filters], "once": len(warnings.onceregistry) if hasattr(warnings, "onceregistry") else 0,
    "threads": [threading.active_count(), threading.main_thread() is threading.current_thread(), threading.main_thread().native_id == threading.get_native_id(), threading.current_thread().name, threading.current_thread().ident == threading.get_ident(), threading.stack_size(), threading._count() if hasattr(threading, "_count") else 0],
    "native": threading.get_native_id() == os.getpid(),
    "locale": [locale.setlocale(c) for c in (locale.LC_ALL, locale.LC_CTYPE, locale.LC_NUMERIC, locale.LC_COLLATE, locale.LC_TIME)], "encoding": [locale.getpreferredencoding(False), sys.getfilesystemencoding(), sys.getfilesystemencodeerrors(), sys.getdefaultencoding()],
    "cwd": os.getcwd(), "environ": dict(os.environ), "umask": os.umask(0o77), "pid": os.getpid(), "groups": os.getgroups(),
    "session": [os.getsid(0) > 0, os.getpgid(0) > 0], "atexit": atexit._ncallbacks(), "gc": [gc.isenabled(), list(gc.get_threshold()), gc.get_debug(), gc.callbacks, gc.garbage],
    "main": sorted(vars(main)), "main file": main.__file__, "main name": [main.__name__, repr(main.__spec__), repr(main.__doc__), str(main.__package__), kind(main.__loader__)], "recursion": sys.getrecursionlimit(), "switch": sys.getswitchinterval(),
    "digits": sys.get_int_max_str_digits() if hasattr(sys, "get_int_max_str_digits") else 0, "faulthandler": faulthandler.is_enabled(), "intern": sys.dont_write_bytecode, "coroutine": sys.get_coroutine_origin_tracking_depth(), "asyncgen": [x is None for x in sys.get_asyncgen_hooks()],
    "builtins": sorted(vars(builtins)), "frames": [x for x in frames], "last": [hasattr(sys, x) for x in ("last_type", "last_value", "last_traceback", "ps1")], "audit": hasattr(sys, "_audit"),
    "stdin": stream(sys.stdin), "stdout": stream(sys.stdout), "stderr": stream(sys.stderr), "same": [sys.stdin is sys.__stdin__, sys.stdout is sys.__stdout__, sys.stderr is sys.__stderr__],
    "limits": {n: list(resource.getrlimit(getattr(resource, n))) for n in dir(resource) if n.startswith("RLIMIT_") and n != "RLIMIT_OFILE"}, "cpus": os.cpu_count(),
    "logging": [logging.root.handlers, logging.root.level, sorted(logging.root.manager.loggerDict)], "tz": time.tzname,
    "forks": [n for n in sys.modules if "forks" in n], "package": [n for n in vars(sys.modules["airlock_guest"]) if n == "forks"],
}
found["read"] = sys.stdin.read()
`

// TestSeesAFreshInterpreter: whatever a program can ask about its interpreter
// is what a guest of bubblewrap is told, which has one of its own.
func TestSeesAFreshInterpreter(t *testing.T) {
	t.Parallel()
	fresh := bubblewrap.New(bubblewrap.Config{})
	t.Cleanup(func() { _ = fresh.Close() })
	if _, err := fresh.Probe(t.Context()); err != nil {
		required(t, bubblewrap.Name, err)
	}
	b, _ := open(t, forkserver.Config{})
	for _, stdin := range []string{"", "gr\u00fc\u00dfe\n\xff\r\n"} {
		g := guest{code: state + "return found", stdin: stdin}
		want, got := told(t, g.run(t, fresh)), told(t, g.run(t, b))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("what a guest with stdin %q is told (-fresh +forked):\n%s", stdin, diff)
		}
	}
}

// TestNextGuestIsFreshToo: one that changed all it could leaves the next of
// its slot what it found itself.
func TestNextGuestIsFreshToo(t *testing.T) {
	t.Parallel()
	b, _ := open(t, forkserver.Config{})
	g := guest{code: state + "return found", stdin: "x"}
	want := told(t, g.run(t, b))
	slots := treeOf(t, b).slots()
	s := ran(t, b, `
import sys, os, signal, warnings, asyncio, gc, builtins, random, locale, threading, json
signal.signal(signal.SIGTERM, lambda *_: None); signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
warnings.simplefilter("error"); gc.disable(); builtins.print = None; json.dumps = None
os.environ["X"] = "1"; os.chdir("/tmp"); os.umask(0); sys.setrecursionlimit(300); sys.path.clear(); sys.meta_path.clear()
random.seed(1); sys.excepthook = None; open("/workspace/x", "w").close(); open("/tmp/x", "w").close(); open("/dev/shm/x", "w").close()
asyncio.set_event_loop_policy(asyncio.DefaultEventLoopPolicy()); sys.flags
return 1`, job.Limits{})
	if s.value != "1" {
		t.Fatalf("got %q; %s", s.value, s.fault)
	}
	if diff := cmp.Diff(want, told(t, g.run(t, b))); diff != "" {
		t.Errorf("what the next guest is told (-before +after):\n%s", diff)
	}
	files := ran(t, b, `import os; return [os.listdir(d) for d in ("/workspace", "/tmp", "/dev/shm")]`, job.Limits{})
	if files.value != `[["main.py"],[],[]]` {
		t.Errorf("got files %s, want none of the guest before", files.value)
	}
	if now := treeOf(t, b).slots(); !slices.Equal(slots, now) {
		t.Errorf("got slots %v, then %v: this test proves nothing", slots, now)
	}
}

func told(t *testing.T, s seen) map[string]any {
	t.Helper()
	var found map[string]any
	if err := json.Unmarshal([]byte(s.value), &found); err != nil {
		t.Fatalf("got value %q; %s\n%s", s.value, s.fault, s.stderr)
	}
	return found
}
