package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"airlock/job"
	"airlock/worker/trace"
)

// TestUntilFirst reads what a worker's trace writes: of one job that printed,
// one that did not, and one that was never claimed.
func TestUntilFirst(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "trace.json")
	f, err := trace.Create(path, trace.Config{Process: "bench"})
	if err != nil {
		t.Fatal(err)
	}
	printed := job.NewID()
	s := f.Begin(printed, time.Now())
	s.Claim(1, "wasm")
	s.MarkAt(trace.Sent, time.Now().Add(time.Second))
	s.MarkAt(trace.First, time.Now().Add(3*time.Second))
	s.MarkAt(trace.Result, time.Now().Add(time.Hour))
	s.Leave()
	s.End()
	silent := f.Begin(job.NewID(), time.Now())
	silent.Claim(1, "wasm")
	silent.MarkAt(trace.Result, time.Now().Add(time.Second))
	silent.End()
	f.Begin(job.NewID(), time.Now()).End()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	took, err := untilFirst(path)
	// The clock runs between the notes, by however much.
	if got := took[printed.String()]; err != nil || len(took) != 1 || got < 3*time.Second || got >= time.Hour {
		t.Errorf("got %v, error %v, want three seconds of the job that printed alone", took, err)
	}
}

func TestUntilFirstRefuses(t *testing.T) {
	t.Parallel()
	for name, doc := range map[string]string{"no job": "[\n]\n", "half": `[{"name":"job","ts":1`} {
		path := filepath.Join(t.TempDir(), "trace.json")
		if err := os.WriteFile(path, []byte(doc), 0o600); err != nil {
			t.Fatal(err)
		}
		if took, err := untilFirst(path); err == nil || !strings.Contains(err.Error(), "trace") {
			t.Errorf("%s: got %v and error %v, want none and one that names the trace", name, took, err)
		}
	}
}
