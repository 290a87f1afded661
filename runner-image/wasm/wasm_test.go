package wasm_test

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// offered are the fields of a job that has the tool echo.
const offered = `,"tools":[{"namespace":"t","name":"echo"}]`

func TestJob(t *testing.T) {
	t.Parallel()
	runAll(t, []program{
		{"value", "1 + 1", "2"},
		{"none", "", "<nil>"},
		{"call", "await echo(value='x')", "x"},
		{"calls in order of replies", `
import asyncio
order = []
async def call(value, seconds):
    order.append(await echo(value=value, seconds=seconds))
await asyncio.gather(call(1, 1), call(2, .5), call(3, 0))
order`, "[3 2 1]"},
		{"loop of its own", `
import asyncio
async def main():
    async with asyncio.TaskGroup() as group:
        queue = asyncio.Queue()
        group.create_task(queue.put(await echo(value=5)))
        return await queue.get() + await asyncio.to_thread(pow, 2, 5)
asyncio.run(main())`, "37"},
		{"late reply", `
import asyncio
try:
    await asyncio.wait_for(echo(value=1, seconds=3600), .05)
except TimeoutError:
    value = await echo(value="late")
value`, "late"},
		{"time passes", `
import asyncio, time
start = time.monotonic()
time.sleep(.05)
await asyncio.sleep(.05)
time.monotonic() - start >= .1 and time.time() > 1.7e9`, "true"},
		{"library", `
import decimal, gzip, hashlib, json, sysconfig, tempfile, xml.etree.ElementTree, zipfile, zoneinfo
assert sysconfig.get_config_var("EXT_SUFFIX") is not None
with tempfile.TemporaryFile() as file:
    file.write(gzip.compress(b"x" * 100))
    file.seek(0)
    [len(gzip.decompress(file.read())), hashlib.sha256(b"").hexdigest()[:8], str(decimal.Decimal(1) / 8), json.loads("[1]")]
    value = len(xml.etree.ElementTree.fromstring("<a><b/></a>"))
value`, "1"},
		{"files", "import os\nopen('ä.txt', 'w').write('ö')\n[os.getcwd(), sorted(os.listdir()), open('ä.txt').read()]", "[/workspace [main.py ä.txt] ö]"},
		{"path", "import sys\nsys.path", "[/workspace /py/stdlib.zip]"},
		{"deep recursion", "def f(n):\n    return f(n + 1)\ntry:\n    f(0)\nexcept RecursionError:\n    value = 'caught'\nvalue", "caught"},
		{"deep nesting", "x = []\nfor _ in range(100000):\n    x = [x]\ntry:\n    repr(x)\nexcept RecursionError:\n    value = 'caught'\nvalue", "caught"},
		{"lock with a time", "import threading\nlock = threading.Lock()\n[lock.acquire(), lock.acquire(timeout=.01)]", "[true false]"},
		{"recursive lock", "import threading\nlock = threading.RLock()\n[lock.acquire(), lock.acquire()]", "[true true]"},
		{"queue with a time", `
import queue
try:
    queue.Queue().get(timeout=.01)
except queue.Empty:
    value = "empty"
value`, "empty"},
	})
}

func TestStreams(t *testing.T) {
	t.Parallel()
	m := started(t)
	code := "import os, sys\nprint('out')\nprint('err', file=sys.stderr)\nsys.stdout.write('no newline')\nsys.stdin.read() == '' and os._exit(9)"
	if exit, result := m.run(t, code, ""); exit != 9 || result != nil {
		t.Errorf("got code %d and %v, want 9 and no result", exit, result)
	}
	if got, want := m.out.String(), "out\nno newline"; got != want {
		t.Errorf("got stdout %q, want %q, though nothing was flushed", got, want)
	}
	if got, want := m.err.String(), "err\n"; got != want {
		t.Errorf("got stderr %q, want %q", got, want)
	}
}

func TestExit(t *testing.T) {
	t.Parallel()
	m := started(t)
	if exit, result := m.run(t, "import sys\nsys.exit(7)", ""); exit != 7 || result != nil {
		t.Errorf("got code %d and %v, want 7 and no result", exit, result)
	}
}

func TestFiles(t *testing.T) {
	t.Parallel()
	m := started(t)
	more := `,"files":[{"path":"a/in.txt","base64":"aGk="}],"env":{"MODE":"fast"},"args":["-v"],"collect":["*.txt"]`
	code := "import os, sys\nopen('out.txt', 'w').write(open('a/in.txt').read() + os.environ['MODE'] + sys.argv[1])"
	if exit, result := m.run(t, code, more); exit != 0 {
		t.Fatalf("got code %d and %v, want 0", exit, result)
	}
	var got []any
	for _, frame := range m.said {
		if frame["method"] == "artifact" {
			got = append(got, frame["params"])
		}
	}
	want := []any{map[string]any{"path": "out.txt", "base64": base64.StdEncoding.EncodeToString([]byte("hifast-v"))}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("got other artifacts (-want +got):\n%s", diff)
	}
	if _, err := os.Stat(filepath.Join(m.workspace, "a", "in.txt")); err != nil {
		t.Errorf("got %v, want the input in the workspace", err)
	}
}

// TestCopiesDiffer draws from every source of random numbers in two copies of
// one image.
func TestCopiesDiffer(t *testing.T) {
	t.Parallel()
	for _, source := range []string{"import random\nrandom.random()", "import os\nos.urandom(8).hex()", "import uuid\nstr(uuid.uuid4())",
		"import secrets\nsecrets.token_hex()", "import tempfile\ntempfile.mktemp()"} {
		_, one := started(t).run(t, source, "")
		_, other := started(t).run(t, source, "")
		if one["value"] == nil || one["value"] == other["value"] {
			t.Errorf("got %v and %v from %q, want two values that differ", one, other, source)
		}
	}
}

func TestWorkerGone(t *testing.T) {
	t.Parallel()
	m := started(t)
	m.hungUp = true
	if exit, result := m.run(t, "1", ""); exit != 70 || result != nil {
		t.Errorf("got code %d and %v, want 70 and no result", exit, result)
	}
	if !strings.Contains(m.err.String(), "the channel to the worker is closed") {
		t.Errorf("got stderr %q, want it to say that the channel is closed", m.err.String())
	}
}

// TestChannel has a program speak on the channel itself, as it can.
func TestChannel(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, code, want string }{
		{"too large", "_airlock.send(b'x' * (8 * 1024 * 1024 + 1))", "ValueError"},
		{"no bytes", "_airlock.send('x')", "TypeError"},
		{"refused", "_airlock.send(b'{')", "ConnectionError"},
		{"time", "assert _airlock.wait(1000) == -1\nraise EOFError", "EOFError"},
		{"another frame", "_airlock.take(7)", "ConnectionError"},
		{"negative", "_airlock.take(-1)", "ValueError"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, result := started(t).run(t, "import _airlock\n"+test.code, "")
			failed, _ := result["error"].(map[string]any)
			if failed["type"] != test.want {
				t.Errorf("got %v, want a %s", result, test.want)
			}
		})
	}
}

// TestNotStarted leaves out what airlock_init needs.
func TestNotStarted(t *testing.T) {
	t.Parallel()
	m := loaded(t, "_initialize")
	if got := m.call(t, "airlock_run"); got != 70 {
		t.Errorf("got %d from airlock_run before airlock_init, want 70", got)
	}
}

// program is one whose value is known.
type program struct{ name, code, want string }

// runAll runs each in an interpreter of its own.
func runAll(t *testing.T, programs []program) {
	t.Helper()
	for _, test := range programs {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			m := started(t)
			exit, result := m.run(t, test.code, offered)
			if exit != 0 || fmt.Sprint(result["value"]) != test.want {
				t.Errorf("got code %d and %v, want 0 and %v; stderr: %s", exit, result, test.want, m.err.String())
			}
		})
	}
}
