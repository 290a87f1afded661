package wasm_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"airlock/backends"
	"airlock/backends/internal/frame"
	"airlock/job"

	"github.com/go-json-experiment/json/jsontext"
)

// ran is what became of a guest that is Python.
type ran struct {
	outcome        backends.Outcome
	stdout, stderr bytes.Buffer
	result         *frame.Result
	// breach is what was wrong with the conversation.
	breach error
}

// runPython runs code without tools.
func runPython(t testing.TB, b backends.Backend, code string, limits job.Limits) *ran {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	got := &ran{}
	var err error
	got.outcome, err = b.Run(ctx, backends.Task{
		Job: job.NewID(), Attempt: 1, Limits: limits.WithDefaults(), Stdout: &got.stdout, Stderr: &got.stderr,
		Serve: func(_ context.Context, channel io.ReadWriteCloser) error {
			got.breach = got.serve(channel, code)
			return got.breach
		},
	})
	if err != nil || ctx.Err() != nil {
		t.Fatalf("run: %v, %v; stderr: %s", err, ctx.Err(), got.stderr.String())
	}
	return got
}

func (r *ran) serve(channel io.ReadWriter, code string) error {
	var hello, last frame.Request
	if err := frame.Read(channel, &hello); err != nil {
		return err
	}
	told := frame.Limits{Result: 1 << 20, Frame: frame.Max, Parallel: 8}
	if err := frame.Write(channel, frame.Job{Method: "job", Params: frame.JobParams{Code: code, Limits: told}}); err != nil {
		return err
	}
	if err := frame.Read(channel, &last); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		return err
	}
	if last.Method != "result" || last.ID == nil {
		return fmt.Errorf("got %q, want a result", last.Method)
	}
	r.result = &frame.Result{}
	if err := job.DecodeStrict(last.Params, r.result); err != nil {
		return err
	}
	return frame.Write(channel, frame.Reply{ID: *last.ID, OK: true})
}

// TestPython: what guests of this backend are like where others are unlike.
func TestPython(t *testing.T) {
	t.Parallel()
	b := realBackend(t)
	t.Cleanup(func() { _ = b.Close() })
	small := job.Limits{Memory: 48 * job.MiB, Disk: job.MiB}
	exhaust := "kept = []\nwhile True: kept.append(bytearray(1 << 20))"
	for _, tt := range []struct {
		name, code string
		limits     job.Limits
		cause      backends.Cause
		value      string
		raised     string
	}{
		{name: "memory at the cap", code: exhaust, limits: small, cause: backends.Exited, raised: "MemoryError"},
		{
			name: "memory at the cap, survived", limits: small, cause: backends.Exited, value: "true",
			code: "kept = []\ntry:\n  while True: kept.append(bytearray(1 << 20))\nexcept MemoryError: n = len(kept); kept.clear()\nreturn 20 < n < 48",
		},
		{
			name: "a full disk", limits: small, cause: backends.Exited, value: "[5,true]",
			code: "n = 0\nwith open('/tmp/a', 'wb', 0) as f:\n  try:\n    while True: n += f.write(b'x' * 4096)\n  except OSError as e: return [__import__('errno').errorcode[e.errno] == 'EIO' and 5, n == 1 << 20]",
		},
		{
			name: "too many files", limits: small, cause: backends.Exited, value: "true",
			code: "n = 0\ntry:\n  while True:\n    open(f'/workspace/{n}', 'w').close(); n += 1\nexcept OSError: return 250 < n <= 256",
		},
		{
			name: "too many descriptors", cause: backends.Exited, value: "true",
			code: "kept = []\ntry:\n  while True: kept.append(open('/py/stdlib.zip'))\nexcept OSError: return 100 < len(kept) <= 1024",
		},
		{name: "deep recursion", code: "def f(): return f()\nf()", cause: backends.Exited, raised: "RecursionError"},
		{name: "deep nesting", code: "import sys\nsys.setrecursionlimit(10**9)\nx = []\nfor _ in range(10**5): x = [x]\nrepr(x)", cause: backends.Exited, raised: "RecursionError"},
		{name: "deep source", code: "eval('(' * 100000)", cause: backends.Exited, raised: "MemoryError"},
		{
			name: "deep recursion through C, with no limit of Python's", cause: backends.Signalled,
			code: "import sys\nsys.setrecursionlimit(10**9)\nclass A:\n  def __getattr__(self, name): return getattr(self, name)\nA().x",
		},
		{name: "a loop", code: "while True: pass", limits: job.Limits{CPU: job.Duration(time.Second)}, cause: backends.OutOfCPU},
		{
			name: "a loop that catches all", limits: job.Limits{CPU: job.Duration(time.Second)}, cause: backends.OutOfCPU,
			code: "while True:\n  try:\n    while True: pass\n  except BaseException: pass",
		},
		{name: "a pattern without an end", code: "import re\nre.match('(a+)+b', 'a' * 60)", limits: job.Limits{CPU: job.Duration(time.Second)}, cause: backends.OutOfCPU},
		{name: "abort", code: "import os\nos.abort()", cause: backends.Signalled},
		{name: "exit", code: "import os\nos._exit(0)", cause: backends.Exited},
		{name: "what there is", code: "import os\nreturn sorted(os.listdir('/'))", cause: backends.Exited, value: `["guest","py","tmp","workspace"]`},
		{name: "what can be read of the host", code: "import os\nreturn [os.path.exists(p) for p in ('/etc/passwd', '/proc', '../../etc', '/tmp/../../etc/hostname')]", cause: backends.Exited, value: "[false,false,false,false]"},
		{name: "what can be changed of Python", code: "open('/guest/airlock_guest/x.py', 'w')", cause: backends.Exited, raised: "OSError"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.cause == backends.OutOfCPU {
				needsAccounting(t)
			}
			got := runPython(t, b, tt.code, tt.limits)
			var value, raised string
			if got.result != nil {
				value = string(got.result.Value)
				if got.result.Error != nil {
					raised = got.result.Error.Type
				}
			}
			if got.outcome.Cause != tt.cause || value != tt.value || raised != tt.raised {
				t.Errorf("got %s (code %d, %s), value %q, raised %q (%v), want %s, %q, %q; stderr: %s", got.outcome.Cause, got.outcome.ExitCode, got.outcome.Signal,
					value, raised, got.result, tt.cause, tt.value, tt.raised, got.stderr.String())
			}
		})
	}
}

// TestBreach: a guest that sends what is no frame of the protocol is killed.
func TestBreach(t *testing.T) {
	t.Parallel()
	b := realBackend(t)
	t.Cleanup(func() { _ = b.Close() })
	for name, send := range map[string]string{
		"junk":       `b"\xff" * 8`,
		"nothing":    `b""`,
		"two values": `b'{"method":"result","id":1}{}'`,
		"a flood":    `b'{"method":"call_tool"}' * 100000`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := runPython(t, b, "import _airlock\n_airlock.send("+send+")\nwhile True: pass", job.Limits{})
			if got.outcome.Cause != backends.Killed || got.breach == nil {
				t.Errorf("got %+v, breach %v, want a killed guest", got.outcome, got.breach)
			}
		})
	}
}

// TestClones: guests that begin as one do not have the same chance.
func TestClones(t *testing.T) {
	t.Parallel()
	b := realBackend(t)
	t.Cleanup(func() { _ = b.Close() })
	code := "import os, random, secrets, uuid\nreturn [random.random(), os.urandom(8).hex(), secrets.token_hex(8), str(uuid.uuid4())]"
	first, second := runPython(t, b, code, job.Limits{}), runPython(t, b, code, job.Limits{})
	if first.result == nil || second.result == nil || bytes.Equal(first.result.Value, second.result.Value) {
		t.Fatalf("got %+v and %+v, want two other results", first.result, second.result)
	}
	for i, value := range elements(t, first.result.Value) {
		if value == elements(t, second.result.Value)[i] {
			t.Errorf("got %s of both guests, want others", value)
		}
	}
}

func elements(t *testing.T, list jsontext.Value) []string {
	t.Helper()
	return strings.Split(strings.Trim(string(list), "[]"), ",")
}

// TestCrowd has a hundred guests at once, of several ends.
func TestCrowd(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes half a minute of processor time")
	}
	b := realBackend(t)
	t.Cleanup(func() { _ = b.Close() })
	if _, err := b.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			got := runPython(t, b, fmt.Sprintf("print(%d)\nreturn %d", i, i), job.Limits{})
			if want := fmt.Sprintf("%d\n", i); got.outcome.Cause != backends.Exited || got.stdout.String() != want {
				t.Errorf("got %+v, stdout %q, want %q", got.outcome, got.stdout.String(), want)
			}
		})
	}
	all.Wait()
}

// TestNothingStays: whatever the end, neither descriptors nor files are left;
// TestMain sees to goroutines.
func TestNothingStays(t *testing.T) {
	where := python(t)
	dir := tempDir(t)
	t.Setenv("TMPDIR", dir)
	t.Setenv("TMP", dir) // as Windows has it
	b := newBackendIn(t, where, "", zerologOf(t))
	ends := []string{"return 1", "1/0", "import os\nos.abort()", "import os\nos._exit(3)", "import _airlock\n_airlock.send(b'x')", "x = bytearray(1 << 30)"}
	runPython(t, b, ends[0], job.Limits{})
	before, lie := descriptors(t), filesIn(t, dir)
	for _, code := range ends {
		runPython(t, b, code, job.Limits{})
	}
	if after := descriptors(t); after > before {
		t.Errorf("got %d descriptors after all guests, want the %d from before", after, before)
	}
	if now := filesIn(t, dir); len(now) > len(lie) {
		t.Errorf("got %v in the temporary directory after all guests, want %v as before", now, lie)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if left := filesIn(t, dir); len(left) > 0 {
		t.Errorf("got %v in the temporary directory after all, want nothing", left)
	}
}

func filesIn(t *testing.T, dir string) []os.DirEntry {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestParallelCalls: three calls are open at once, or none would be answered.
func TestParallelCalls(t *testing.T) {
	t.Parallel()
	b := realBackend(t)
	t.Cleanup(func() { _ = b.Close() })
	const code = "import asyncio\nreturn await asyncio.gather(*(ask(n=n) for n in range(3)))"
	var value string
	got := runGuest(t, b, job.Limits{}, func(_ context.Context, channel io.ReadWriteCloser) error {
		var hello, result frame.Request
		tool := frame.Tool{Namespace: "t", Name: "ask", InputSchema: jsontext.Value(`{"type":"object"}`)}
		told := frame.JobParams{Code: code, Tools: []frame.Tool{tool}, Limits: frame.Limits{Result: 1 << 20, Frame: frame.Max, Parallel: 8}}
		if err := errors.Join(frame.Read(channel, &hello), frame.Write(channel, frame.Job{Method: "job", Params: told})); err != nil {
			return err
		}
		var calls [3]frame.Request
		for i := range calls {
			if err := frame.Read(channel, &calls[i]); err != nil || calls[i].ID == nil {
				return fmt.Errorf("call %d: %w", i, err)
			}
		}
		for i := range calls { // answered in another order than they were made in
			last := calls[len(calls)-1-i]
			if err := frame.Write(channel, frame.Reply{ID: *last.ID, OK: true, Value: jsontext.Value(fmt.Sprint(len(calls) - 1 - i))}); err != nil {
				return err
			}
		}
		if err := frame.Read(channel, &result); err != nil {
			return err
		}
		value = string(result.Params)
		return frame.Write(channel, frame.Reply{ID: *result.ID, OK: true})
	})
	if got.outcome.Cause != backends.Exited || !strings.Contains(value, `"value":[0,1,2]`) {
		t.Errorf("got %+v, result %s, want the value [0,1,2]; stderr: %s", got.outcome, value, got.stderr.String())
	}
}
