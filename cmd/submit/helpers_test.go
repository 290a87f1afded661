package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

// patience is how long anything may take that is expected to happen.
const patience = 60 * time.Second

// safeBuffer is a buffer for several goroutines.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// ended is what a run of the command left.
type ended struct {
	code           int
	stdout, stderr string
}

// submit runs the command against the fleet.
func (f *fleet) submit(args ...string) ended {
	f.t.Helper()
	return f.submitIn(context.Background(), nil, "", args...)
}

func (f *fleet) submitIn(ctx context.Context, env []string, stdin string, args ...string) ended {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 5*patience)
	defer cancel()
	var stdout, stderr safeBuffer
	env = append([]string{"AIRLOCK_NATS=" + f.url}, env...)
	code := run(ctx, args, env, strings.NewReader(stdin), &stdout, &stderr)
	return ended{code, stdout.String(), stderr.String()}
}

// want fails the test if the run did not end with code.
func (e ended) want(t testing.TB, code int) ended {
	t.Helper()
	if e.code != code {
		t.Fatalf("got exit code %d, want %d\nstdout:\n%.2000s\nstderr:\n%.4000s", e.code, code, e.stdout, e.stderr)
	}
	return e
}

func (e ended) wantIn(t testing.TB, stream, text string) ended {
	t.Helper()
	have := e.stdout
	if stream == "stderr" {
		have = e.stderr
	}
	if !strings.Contains(have, text) {
		t.Errorf("got %s without %q:\n%.4000s", stream, text, have)
	}
	return e
}

// write makes a file in a directory of its own.
func write(t testing.TB, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func read(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// results decodes lines of results.
func results(t testing.TB, text string) []resultLine {
	t.Helper()
	var all []resultLine
	for line := range strings.Lines(text) {
		var r resultLine
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("got line %.200q: %v", line, err)
		}
		all = append(all, r)
	}
	return all
}

// wantLines checks that there is one result for each of the lines 1 to n.
func wantLines(t testing.TB, got []resultLine, n int) {
	t.Helper()
	seen := map[int]int{}
	for _, r := range got {
		seen[r.Line]++
	}
	for line := 1; line <= n; line++ {
		if seen[line] != 1 {
			t.Errorf("got %d results for line %d, want 1", seen[line], line)
		}
	}
	if len(got) != n {
		t.Errorf("got %d results, want %d", len(got), n)
	}
}

func summaryOf(t testing.TB, text string) summary {
	t.Helper()
	var s summary
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatalf("got summary %.500q: %v", text, err)
	}
	return s
}

// jobsFile makes a file of n jobs.
func jobsFile(t testing.TB, n int) string {
	t.Helper()
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "{\"code\": \"value %d\"}\n", i)
	}
	return write(t, "jobs.jsonl", text.String())
}

// eventually polls until ok.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(patience); !ok(); <-ticker.C {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not happen within %s", what, patience)
		}
	}
}
