package wasm_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"airlock/backends"
	"airlock/backends/internal/guestproc"
	"airlock/job"
)

// TestSpareMemory: a guest's process that waits for its job shares the code it
// runs with the others. It looks at all there are, so it does not run beside
// other tests.
func TestSpareMemory(t *testing.T) {
	b := realBackend(t)
	defer b.Close()
	looked := 0
	task := backends.Task{Job: job.NewID(), Attempt: 1, Limits: job.DefaultLimits(), Stdout: io.Discard, Stderr: io.Discard}
	task.Serve = func(_ context.Context, channel io.ReadWriteCloser) error {
		return guestproc.Converse(&spoken{ReadWriter: channel, then: func() {
			for _, pid := range children(t) {
				looked++
				checkSpare(t, pid)
			}
		}}, "pass")
	}
	if _, err := b.Run(t.Context(), task); err != nil || looked == 0 {
		t.Fatalf("got error %v and %d processes, want one", err, looked)
	}
}

// spoken is a channel that does something once the guest has said that it is
// ready, as a spare one has, and waits.
type spoken struct {
	io.ReadWriter
	then func()
}

func (s *spoken) Read(p []byte) (int, error) {
	n, err := s.ReadWriter.Read(p)
	if s.then != nil {
		s.then()
		s.then = nil
	}
	return n, err
}

// codeSize is half of what an interpreter's compiled code takes.
const codeSize = 8 << 20

func checkSpare(t *testing.T, pid int) {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	shared, own := uint64(0), uint64(0)
	for line := range strings.Lines(string(data)) {
		var begin, end uint64
		var rights string
		if _, err := fmt.Sscanf(line, "%x-%x %s", &begin, &end, &rights); err != nil || rights[2] != 'x' {
			continue
		}
		if fields := strings.Fields(line); len(fields) == 5 {
			own += end - begin
		} else if strings.Contains(fields[5], "airlock-code") {
			shared += end - begin
		}
	}
	if shared < codeSize || own > codeSize {
		t.Errorf("got %d bytes of shared code and %d of its own, want the most shared", shared, own)
	}
}
