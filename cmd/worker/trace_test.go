package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/rs/zerolog"

	"airlock/job"
	"airlock/queue"
	"airlock/queue/natstest"
	"airlock/store/storetest"
)

// TestTheTraceOfAWorkerIsWholeAfterSIGTERM runs one job through a whole worker.
func TestTheTraceOfAWorkerIsWholeAfterSIGTERM(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	srv, path := natstest.Start(t), filepath.Join(t.TempDir(), "trace.json")
	cfg := &config{}
	if code, done := parseInto(cfg, "worker", "", []string{
		"--nats", srv.URLOf("worker"), "--postgres", storetest.URL(t), "--backends", "fake", "--slots", "2", "--trace", path,
	}, io.Discard, os.Stderr); done {
		t.Fatalf("flags: code %d", code)
	}
	signals, worked := make(chan os.Signal, 1), make(chan error, 1)
	go func() { worked <- runPool(ctx, cfg, &strings.Builder{}, zerolog.Nop(), signals) }()

	nc, err := queue.Connect(ctx, srv.URLOf("submitter-a"), "test", zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	q := attached(ctx, t, func() (*queue.Queue, error) { return queue.Attach(ctx, nc, queue.Config{Tenant: "a"}) })
	defer q.Close()
	until(ctx, t, "a worker", func() bool { w, err := q.Workers(ctx); return err == nil && len(w) == 1 })
	r := ran(ctx, t, q, &job.Job{Code: "1"})
	signals <- syscall.SIGTERM
	if err := <-worked; err != nil {
		t.Errorf("worker: %v", err)
	}

	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var events []struct {
		Name string `json:"name"`
		Args struct {
			Job string `json:"job"`
		} `json:"args"`
	}
	if err := json.Unmarshal(raw, &events); err != nil {
		t.Fatalf("%v:\n%s", err, raw)
	}
	seen := map[string]bool{}
	for _, e := range events {
		seen[e.Name] = true
		if e.Name == "job" && e.Args.Job != r.Job.String() {
			t.Errorf("got job %s, want %s", e.Args.Job, r.Job)
		}
	}
	for _, name := range []string{
		"queued", "job", "claimed", "guest ready", "code sent", "first byte", "result", "guest gone", "committed", "acknowledged", "announced",
	} {
		if !seen[name] {
			t.Errorf("the trace lacks %q:\n%s", name, raw)
		}
	}
}
