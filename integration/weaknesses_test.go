package integration_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/jackc/pgx/v5"

	"airlock/job"
)

// TestKnownWeaknesses holds what earlier systems of this kind got wrong, as
// jobs whose end would show it. The names are those of the lists they were
// reported in: W for weaknesses of two seeds, B for bugs of the field.
func TestKnownWeaknesses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, code string
		flags      []string
		status     job.Status
		value      string
		check      func(t *testing.T, r *job.Result)
	}{
		{name: "W1 host environment", code: "import os; return sorted(os.environ)", status: job.StatusOK, check: func(t *testing.T, r *job.Result) {
			if strings.Contains(string(r.Value), "CANARY") || strings.Contains(string(r.Value), "AIRLOCK") {
				t.Errorf("the guest sees %s", r.Value)
			}
		}},
		{name: "W2 limits that a guest may raise", status: job.StatusMemoryLimit, flags: []string{"--memory", "64MiB"}, code: `
import resource
for name in ("RLIMIT_AS", "RLIMIT_DATA", "RLIMIT_CPU"):
    try:
        resource.setrlimit(getattr(resource, name), (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    except (ValueError, OSError):
        pass
x = bytearray(400 << 20)`},
		{name: "W2 memory of a child counts", status: job.StatusOK, value: "-9", flags: []string{"--memory", "64MiB"}, code: `
import subprocess, sys
return subprocess.run([sys.executable, "-c", "x = bytearray(400 << 20)"]).returncode`, check: func(t *testing.T, r *job.Result) {
			if len(r.Events) == 0 || r.Events[0].Kind != job.EventOOM {
				t.Errorf("events: got %+v, want an oom beside ok", r.Events)
			}
		}},
		{name: "W2 cpu time of children counts", status: job.StatusCPULimit, flags: []string{"--cpu", "1s", "--wall", "20s"}, code: `
import subprocess, sys
while True:
    subprocess.run([sys.executable, "-c", "import time\nwhile time.process_time() < 0.4: pass"])`},
		{name: "W3 processes are counted per guest", status: job.StatusOK, value: "true", flags: []string{"--processes", "16"}, code: `
import os, time
born = 0
try:
    for _ in range(120):
        if os.fork() == 0:
            time.sleep(20)
            os._exit(0)
        born += 1
except BlockingIOError:
    pass
return 8 < born < 16`},
		{name: "W4 capabilities and ids", status: job.StatusOK, value: `["0000000000000000", true]`, code: `
import os
status = dict(line.split(":", 1) for line in open("/proc/self/status")) if os.path.exists("/proc/self/status") else {"CapEff": "0000000000000000"}
return [status["CapEff"].strip(), os.getuid() != 0]`},
		{name: "W6 a function with a return", status: job.StatusOK, value: "3", code: "def f():\n    return 3\n__result__ = f()"},
		{name: "W6 an import seen inside a function", status: job.StatusOK, value: "2.0", code: "import math\ndef f(x):\n    return math.sqrt(x)\nf(4)"},
		{name: "W6 return without a space", status: job.StatusOK, value: "5", code: "return(5)"},
		{name: "W6 bare return", status: job.StatusOK, value: "null", code: "return"},
		{name: "W6 lines of a string", status: job.StatusOK, value: `"a\n  b\nc"`, code: "x = '''a\n  b\nc'''\nreturn x"},
		{name: "W6 future import", status: job.StatusOK, value: `"int"`, code: "from __future__ import annotations\ndef f(a: int): pass\nreturn f.__annotations__['a']"},
		{name: "W6 the word in a comment", status: job.StatusOK, value: "1", code: "# return await \n1"},
		{name: "W8 a grandchild in a session of its own", status: job.StatusOK, value: "1", code: `
import subprocess, sys
subprocess.Popen([sys.executable, "-c", "import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(7133)"])
return 1`, check: func(t *testing.T, _ *job.Result) { nothingRuns(t, "7133") }},
		{name: "W8 a child that holds stdout", status: job.StatusOK, value: "1", flags: []string{"--wall", "20s"}, code: `
import subprocess, sys
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(7144)"])
print("done")
return 1`, check: func(t *testing.T, r *job.Result) {
			nothingRuns(t, "7144")
			if r.Usage.Wall.Std() > 10*time.Second || string(r.Stdout) != "done\n" {
				t.Errorf("wall %s, stdout %q: the child was waited for", r.Usage.Wall, r.Stdout)
			}
		}},
		{name: "W10 B32 a grandchild holds the pipe past the kill", status: job.StatusTimeout, flags: []string{"--wall", "1s"}, code: `
import subprocess, sys
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(7155)"])
while True: pass`, check: func(t *testing.T, _ *job.Result) { nothingRuns(t, "7155") }},
		{name: "W11 output without end", status: job.StatusOutputLimit, flags: []string{"--cpu", "60s", "--wall", "60s"}, code: "while True: print('abcdefghij' * 1000)",
			check: func(t *testing.T, r *job.Result) {
				if len(r.Stdout) != 65536 || !r.StdoutTruncated {
					t.Errorf("kept %d bytes, truncated %v; want 65536, true", len(r.Stdout), r.StdoutTruncated)
				}
			}},
		{name: "W13 an answer that fits no frame", status: job.StatusOK, value: `"too_large"`, flags: []string{"--tools", "math.echo"}, code: `
try:
    await echo(text="x" * 900_000 + "\n" * 200_000)
except ToolError as error:
    return error.code`},
		{name: "W13 a lone surrogate as argument", status: job.StatusOK, flags: []string{"--tools", "math.echo"}, code: `
try:
    return (await echo(text="\ud800"))
except (ToolError, ValueError) as error:
    return type(error).__name__`},
		{name: "W15 W21 schemas are checked, refusals are recorded", status: job.StatusOK, value: `"bad_arguments"`, flags: []string{"--tools", "math.add"}, code: `
try:
    await add(a=[], b=1)
except ToolError as error:
    return error.code`, check: func(t *testing.T, r *job.Result) {
			if got := recordedCalls(t, r.Job, "refused"); got != 1 {
				t.Errorf("refused calls in the audit: got %d, want 1", got)
			}
		}},
		{name: "four mistakes, four codes", status: job.StatusOK, value: `["unknown_tool", "not_granted", "no_provider", "bad_arguments"]`,
			flags: []string{"--tools", "math.*,ghost.*"}, code: `
codes = []
for namespace, name, arguments in (("math", "nosuch", {}), ("admin", "add", {}), ("ghost", "add", {}), ("math", "add", {"a": [], "b": 1})):
    try:
        await tools.call(namespace, name, arguments)
    except ToolError as error:
        codes.append(error.code)
return codes`},
		{name: "W18 dotted names name nothing", status: job.StatusOK, value: `["bad_name", "bad_name"]`, flags: []string{"--tools", "math.add"}, code: `
codes = []
for namespace, name in (("math", "x.add"), ("math.x", "add")):
    try:
        await tools.call(namespace, name, {"a": 1, "b": 2})
    except ToolError as error:
        codes.append(error.code)
return codes`},
		{name: "W19 a result does not hide what comes after", status: job.StatusTimeout, flags: []string{"--wall", "2s"}, code: `
import json, os, struct
frame = json.dumps({"id": 0, "method": "result", "params": {"value": "forged"}}).encode()
os.write(3, struct.pack(">I", len(frame)) + frame)
while True: pass`, check: func(t *testing.T, r *job.Result) {
			if r.Value != nil {
				t.Errorf("value %s beside timeout", r.Value)
			}
		}},
		{name: "W20 exit codes of others are a guest's error", status: job.StatusGuestError, code: "import sys; sys.exit(137)"},
		{name: "W20 a guest that kills itself is no limit", status: job.StatusGuestError, code: "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"},
		{name: "W22 B22 NaN and infinity", status: job.StatusOK, code: "return {'a': float('nan'), 'b': float('inf')}",
			value: `{"a":{"$airlock":"float","value":"nan"},"b":{"$airlock":"float","value":"inf"}}`},
		{name: "W22 B19 NUL everywhere", status: job.StatusGuestError, code: "print('a\\0b')\nraise ValueError('c\\0d')", check: func(t *testing.T, r *job.Result) {
			if string(r.Stdout) != "a\x00b\n" || !strings.Contains(r.Error.Message, "c") {
				t.Errorf("stdout %q, error %+v", r.Stdout, r.Error)
			}
		}},
		{name: "B19 NUL in value and arguments", status: job.StatusOK, value: `"a\u0000b"`, flags: []string{"--tools", "math.echo"}, code: "return await echo(text='a\\0b')"},
		{name: "B19 invalid UTF-8 on stdout", status: job.StatusOK, code: "import sys; sys.stdout.buffer.write(b'\\xff\\xfe\\x00')", check: func(t *testing.T, r *job.Result) {
			if string(r.Stdout) != "\xff\xfe\x00" {
				t.Errorf("stdout: got %q", r.Stdout)
			}
		}},
		{name: "B24 integers beyond 2^53", status: job.StatusOK, value: `{"text":"x","n":2512292042121000001}`, flags: []string{"--tools", "math.echo"}, code: "n = 2512292042121000001\nreturn {'text': await echo(text='x'), 'n': n}"},
		{name: "2**60+1", status: job.StatusOK, value: "1152921504606846977", code: "return 2**60+1"},
		{name: "B02 output on both streams", status: job.StatusOK, code: "import sys\nfor _ in range(200):\n    sys.stdout.write('o' * 1000)\n    sys.stderr.write('e' * 1000)", check: func(t *testing.T, r *job.Result) {
			if r.StdoutBytes != 200_000 || r.StderrBytes != 200_000 {
				t.Errorf("counted %d and %d, want 200000 each", r.StdoutBytes, r.StderrBytes)
			}
		}},
		{name: "B07 characters across reads", status: job.StatusOK, flags: []string{"--output", "1MiB"}, code: "print('☕' * 100_000)", check: func(t *testing.T, r *job.Result) {
			if got := strings.Count(string(r.Stdout), "☕"); got != 100_000 || strings.Contains(string(r.Stdout), "\ufffd") {
				t.Errorf("got %d cups", got)
			}
		}},
		{name: "10 MB without a newline", status: job.StatusOK, code: "import sys; sys.stdout.write('a' * 10_000_000)", check: func(t *testing.T, r *job.Result) {
			if r.StdoutBytes != 10_000_000 || len(r.Stdout) != 65536 {
				t.Errorf("counted %d, kept %d", r.StdoutBytes, len(r.Stdout))
			}
		}},
		{name: "B33 the job ends with its main process", status: job.StatusOK, value: "null", code: "import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', 'import time; time.sleep(7166)'])\nprint('done')",
			check: func(t *testing.T, _ *job.Result) { nothingRuns(t, "7166") }},
		{name: "B45 stdin is at its end", status: job.StatusGuestError, code: "print(input())", check: func(t *testing.T, r *job.Result) {
			if r.Error.Type != "EOFError" {
				t.Errorf("error: got %s, want EOFError", r.Error.Type)
			}
		}},
		{name: "B98 arguments of 2 MB", status: job.StatusOK, value: `"too_large"`, flags: []string{"--tools", "math.echo"}, code: `
try:
    await echo(text="x" * 2_000_000)
except ToolError as error:
    return error.code`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := runJob(t, tc.code, tc.flags...)
			if r.Status != tc.status {
				t.Fatalf("status: got %s (%+v), stderr %.500q; want %s", r.Status, r.Error, r.Stderr, tc.status)
			}
			if tc.value != "" && !equalJSON(t, string(r.Value), tc.value) {
				t.Errorf("value: got %s, want %s", r.Value, tc.value)
			}
			if tc.check != nil {
				tc.check(t, r)
			}
		})
	}
}

// nothingRuns fails when a process of the host still has the marker in its
// arguments, a moment after the job's result was seen.
func nothingRuns(t *testing.T, marker string) {
	t.Helper()
	until(t, time.Minute, "the end of every process of the job", func() bool { return !anyProcess("time.sleep(" + marker) })
}

// anyProcess reports whether a process of this host has the text in its
// arguments.
func anyProcess(text string) bool {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range all {
		if args, err := os.ReadFile(path); err == nil && strings.Contains(string(args), text) {
			return true
		}
	}
	return false
}

func recordedCalls(t *testing.T, id job.ID, state string) (count int) {
	t.Helper()
	db, err := pgx.Connect(t.Context(), standaloneEnv(t)["AIRLOCK_POSTGRES"])
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(t.Context())
	if err := db.QueryRow(t.Context(), "SELECT count(*) FROM tool_calls WHERE job = $1 AND state = $2", id.String(), state).Scan(&count); err != nil {
		t.Fatal(err)
	}
	return count
}

// attemptsOf counts the attempts of the jobs whose results are in the lines.
func attemptsOf(t *testing.T, env map[string]string, lines string) (attempts int) {
	t.Helper()
	db, err := pgx.Connect(t.Context(), env["AIRLOCK_POSTGRES"])
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(t.Context())
	for line := range strings.Lines(lines) {
		var r struct {
			Job job.ID `json:"job"`
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("a result line: %v", err)
		}
		var n int
		if err := db.QueryRow(t.Context(), "SELECT count(*) FROM attempts WHERE job = $1", r.Job.String()).Scan(&n); err != nil {
			t.Fatal(err)
		}
		attempts += n
	}
	return attempts
}

func equalJSON(t *testing.T, a, b string) bool {
	t.Helper()
	canonical := func(text string) string {
		v := jsontext.Value(text)
		if err := v.Canonicalize(jsontext.CanonicalizeRawInts(false)); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return string(v)
	}
	return canonical(a) == canonical(b)
}
