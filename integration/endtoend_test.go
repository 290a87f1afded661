package integration_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"airlock/job"
)

func TestJobsEndAsTheyShould(t *testing.T) {
	t.Parallel()
	const addLoop = "total = 0\nfor n in range(1, 6):\n    total = (await add(a=str(total), b=str(n)))['sum']\nreturn total\n"
	for _, tc := range []struct {
		name, code string
		flags      []string
		status     job.Status
		value      string
		errType    string
		calls      int
	}{
		{name: "add loop", code: addLoop, flags: []string{"--tools", "math.add"}, status: job.StatusOK, value: "15", calls: 5},
		{name: "initial variables", code: "return base * 2", flags: []string{"--vars", `{"base": 21}`}, status: job.StatusOK, value: "42"},
		{name: "exception", code: "1/0", status: job.StatusGuestError, errType: "ZeroDivisionError"},
		{name: "tool ceiling", code: addLoop, flags: []string{"--tools", "math.add", "--tool-calls", "2"}, status: job.StatusToolLimit, errType: "ToolError", calls: 2},
		{name: "a tool that is not granted is not bound", code: "await add(a=1, b=2)", flags: []string{"--tools", "math.echo"},
			status: job.StatusGuestError, errType: "NameError"},
		{name: "a tool that is not granted is refused", code: "await tools.call('math', 'add', {'a': 1, 'b': 2})", flags: []string{"--tools", "math.echo"},
			status: job.StatusGuestError, errType: "ToolError"},
		{name: "no tools without grants", code: "await tools.call('math', 'add', {'a': 1, 'b': 2})", status: job.StatusGuestError, errType: "ToolError"},
		{name: "timeout", code: "while True: pass", flags: []string{"--wall", "1s"}, status: job.StatusTimeout, errType: "timeout"},
		{name: "cpu limit", code: "while True: pass", flags: []string{"--cpu", "500ms", "--wall", "20s"}, status: job.StatusCPULimit, errType: "cpu_limit"},
		{name: "memory limit", code: "x = bytearray(300 << 20)", flags: []string{"--memory", "64MiB"}, status: job.StatusMemoryLimit, errType: "memory_limit"},
		{name: "result limit", code: "return 'x' * 2000", flags: []string{"--result", "1KiB"}, status: job.StatusResultLimit, errType: "result_limit"},
		{name: "disk limit", code: "open('/tmp/x', 'wb').write(bytes(1 << 23))", flags: []string{"--disk", "1MiB"}, status: job.StatusDiskLimit, errType: "OSError"},
		{name: "process limit", code: "import threading, time\nfor _ in range(50): threading.Thread(target=time.sleep, args=(9,), daemon=True).start()",
			flags: []string{"--processes", "8"}, status: job.StatusProcessLimit, errType: "RuntimeError"},
		{name: "writing outside", code: "open('/usr/x', 'w')", status: job.StatusGuestError, errType: "OSError"},
		{name: "network", code: "import socket; socket.create_connection(('1.1.1.1', 53), 2)", status: job.StatusGuestError, errType: "PermissionError"},
		{name: "leaves without a result", code: "import os; os._exit(0)", status: job.StatusNoResult, errType: "no_result"},
		{name: "stdin is at its end", code: "return input()", status: job.StatusGuestError, errType: "EOFError"},
		{name: "empty", code: "# nothing", status: job.StatusOK, value: "null"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := runJob(t, tc.code, tc.flags...)
			if r.Status != tc.status {
				t.Errorf("status: got %s (%+v), want %s", r.Status, r.Error, tc.status)
			}
			if tc.value != "" && string(r.Value) != tc.value {
				t.Errorf("value: got %s, want %s", r.Value, tc.value)
			}
			if tc.errType != "" && (r.Error == nil || r.Error.Type != tc.errType) {
				t.Errorf("error: got %+v, want type %s", r.Error, tc.errType)
			}
			if r.ToolCalls != tc.calls {
				t.Errorf("tool calls: got %d, want %d", r.ToolCalls, tc.calls)
			}
			if r.Backend != "forkserver" || r.Isolation.Level != job.IsolationStrong {
				t.Errorf("ran on %s at %s, want forkserver at strong", r.Backend, r.Isolation.Level)
			}
		})
	}
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	env := standaloneEnv(t)
	for _, tc := range []struct {
		name string
		args []string
		want int
	}{
		{"ok", []string{"run", "--code", "1"}, 0},
		{"the job failed", []string{"run", "--code", "1/0"}, 1},
		{"wrong usage", []string{"run"}, 2},
		{"a field that is not supported yet", []string{"run", "--code", "1", "--wall", "-3s"}, 2},
		{"could not be placed", []string{"run", "--code", "1", "--backend", "appcontainer"}, 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := submit(t, env, "", tc.args...); got.code != tc.want {
				t.Errorf("exit code: got %d, want %d; stderr %s", got.code, tc.want, got.stderr)
			}
		})
	}
}

func TestWhatAJobLeavesInPostgres(t *testing.T) {
	t.Parallel()
	env := standaloneEnv(t)
	r := runJob(t, "print('hi')\nreturn (await add(a=1, b=2))['sum']", "--tools", "math.add", "--batch", "left", "--label", "kind=demo")
	db, err := pgx.Connect(t.Context(), env["AIRLOCK_POSTGRES"])
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(t.Context())
	var state, status string
	var attempts, calls int
	err = db.QueryRow(t.Context(), `
SELECT j.state, j.status,
	(SELECT count(*) FROM attempts a WHERE a.job = j.id),
	(SELECT count(*) FROM tool_calls c WHERE c.job = j.id AND c.state = 'ok' AND c.namespace = 'math' AND c.name = 'add')
FROM jobs j
WHERE j.id = $1`, r.Job.String()).Scan(&state, &status, &attempts, &calls)
	if err != nil {
		t.Fatal(err)
	}
	got := []any{state, status, attempts, calls}
	if diff := cmp.Diff([]any{"finished", "ok", 1, 1}, got); diff != "" {
		t.Errorf("state, status, attempts, calls (-want +got):\n%s", diff)
	}
}

func TestABatchIsResumedAndNothingRunsTwice(t *testing.T) {
	t.Parallel()
	env := standaloneEnv(t)
	dir := t.TempDir()
	file, out := filepath.Join(dir, "jobs.jsonl"), filepath.Join(dir, "results.jsonl")
	lines := []string{`{"code": "return 1"}`, `{"code": "return 2", "bogus": 1}`, `not json`, `{"code": "1/0"}`, `{"code": "return 1"}`}
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	first := submit(t, env, "", "batch", file, "-o", out)
	if first.code != 1 {
		t.Errorf("exit code: got %d, want 1; stderr %s", first.code, first.stderr)
	}
	for _, want := range []string{"line 2", "bogus", "line 3"} {
		if !strings.Contains(first.stderr, want) {
			t.Errorf("stderr lacks %q: %s", want, first.stderr)
		}
	}
	once := read(t, out)
	if got := strings.Count(once, "\n"); got != 3 {
		t.Errorf("got %d results, want 3:\n%s", got, once)
	}
	submit(t, env, "", "batch", file, "-o", out)
	if twice := read(t, out); twice != once {
		t.Errorf("the second run changed the results:\n%s", cmp.Diff(once, twice))
	}
	again := submit(t, env, "", "batch", file)
	if got := attemptsOf(t, env, again.stdout); got != 3 {
		t.Errorf("attempts after three runs: got %d, want 3", got)
	}
}

func read(t testing.TB, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
