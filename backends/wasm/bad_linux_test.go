package wasm_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"airlock/backends"
	"airlock/backends/internal/frame"
	"airlock/backends/wasm"
	"airlock/job"
)

// TestOtherVersion: files that are what their manifest says, of another Python
// than it says.
func TestOtherVersion(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(python(t))); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "manifest.json")
	doc, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	other := bytes.Replace(doc, []byte(`"python": "3.13`), []byte(`"python": "3.12`), 1)
	if err := os.WriteFile(path, other, 0o644); err != nil || bytes.Equal(doc, other) {
		t.Fatalf("got %v and manifest %s, want another version in it", err, other)
	}
	_, err = newBackendIn(t, dir, privateDir(t), zerologOf(t)).Probe(t.Context())
	if !errors.Is(err, backends.ErrUnavailable) || !strings.Contains(err.Error(), "is Python 3.13") || !strings.Contains(err.Error(), "make wasm") {
		t.Errorf("got %v, want ErrUnavailable that names both versions and make wasm", err)
	}
}

// TestHelperFloods: what a process says that never becomes a guest is not
// kept. It measures this process, so it does not run beside other tests.
func TestHelperFloods(t *testing.T) {
	const flood = 64 << 20
	for _, stream := range []string{"1", "2"} {
		path := filepath.Join(t.TempDir(), "helper")
		if err := writeProgram(path, []byte("#!/bin/sh\nhead -c 67108864 /dev/zero >&"+stream+"\nexit 1\n")); err != nil {
			t.Fatal(err)
		}
		b := wasm.New(wasm.Config{Helper: wasm.HelperAt(path), Python: installed(t, module(constant(0))), Cache: privateDir(t)})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := b.Probe(t.Context())
		runtime.ReadMemStats(&after)
		if !errors.Is(err, backends.ErrUnavailable) || len(err.Error()) > 2000 {
			t.Errorf("stream %s: got %.300v, want a short ErrUnavailable", stream, err)
		}
		if kept := after.TotalAlloc - before.TotalAlloc; kept > flood/2 {
			t.Errorf("stream %s: got %d bytes allocated, want much less than the %d that were said", stream, kept, flood)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

// dam calls something once so many bytes have come.
type dam struct {
	mu   sync.Mutex
	left int // guarded by mu
	bytes.Buffer
	burst func()
}

func (d *dam) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.left > 0 {
		if d.left -= len(p); d.left <= 0 {
			d.burst()
		}
		d.Buffer.Write(p)
	}
	return len(p), nil
}

// TestEndless: guests that only their worker can end are ended by it, whatever
// their process does just then, and the next is well.
func TestEndless(t *testing.T) {
	t.Parallel()
	b := realBackend(t)
	t.Cleanup(func() { _ = b.Close() })
	for _, tt := range []struct {
		name, code string
		// stdout and stderr are after how much of them the worker has enough.
		stdout, stderr int
	}{
		{name: "floods stdout", code: "import os\nwhile True: os.write(1, b'x' * 65536)", stdout: 4 << 20},
		{name: "floods stderr", code: "import os\nwhile True: os.write(2, b'x' * 65536)", stderr: 4 << 20},
		{name: "waits for a frame for ever", code: "import os, _airlock\nos.write(1, b'x')\n_airlock.wait(-1)\nos.write(2, b'y')", stdout: 1},
		{name: "sends what nobody reads", code: "import os, _airlock\nos.write(1, b'x')\nfor _ in range(64): _airlock.send(b'x' * (1 << 20))\nos.write(2, b'y')", stdout: 1},
		{name: "sleeps", code: "import os, time\nos.write(1, b'x')\ntime.sleep(1000)\nos.write(2, b'y')", stdout: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			enough := make(chan struct{})
			stdout, stderr := &dam{left: tt.stdout, burst: func() { close(enough) }}, &dam{left: max(tt.stderr, 0), burst: func() { close(enough) }}
			if tt.stderr == 0 {
				stderr = &dam{left: 1 << 20, burst: func() {}}
			}
			out, err := b.Run(ctx, backends.Task{
				Job: job.NewID(), Attempt: 1, Limits: job.DefaultLimits(), Stdout: stdout, Stderr: stderr,
				Serve: func(ctx context.Context, channel io.ReadWriteCloser) error {
					var hello frame.Request
					told := frame.JobParams{Code: tt.code, Limits: frame.Limits{Result: 1 << 20, Frame: frame.Max, Parallel: 8}}
					if err := errors.Join(frame.Read(channel, &hello), frame.Write(channel, frame.Job{Method: "job", Params: told})); err != nil {
						return err
					}
					select {
					case <-enough:
					case <-ctx.Done():
					}
					return errors.New("enough")
				},
			})
			if err != nil || ctx.Err() != nil || out.Cause != backends.Killed {
				t.Errorf("got %+v, %v, %v, want a killed guest", out, err, ctx.Err())
			}
			if tt.stderr == 0 && stderr.Len() > 0 {
				t.Errorf("got stderr %q: it did return", stderr.String())
			}
			if next := runPython(t, b, "return 7", job.Limits{}); next.result == nil || string(next.result.Value) != "7" {
				t.Errorf("got %+v of the next guest, want 7", next)
			}
		})
	}
}
