package wasm_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"testing"

	"airlock/backends"
	"airlock/backends/internal/frame"
	"airlock/job"
)

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
			ctx, cancel := context.WithTimeout(t.Context(), patience)
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
