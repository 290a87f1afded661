package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"

	"airlock/broker/provider"
	"airlock/job"
	"airlock/queue"
	"airlock/queue/natstest"
	"airlock/store/storetest"
)

// A whole worker on an empty server, a submitter and a provider, each with the
// permissions of its role: what is refused to any of them fails the test.
func TestTheWholePathWithPermissions(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	srv := natstest.Start(t)
	secrets := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(secrets, name)
		if err := os.WriteFile(path, []byte(content+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	cfg := &config{}
	if code, done := parseInto(cfg, "worker", "", []string{
		"--nats", "nats://nobody:wrong@127.0.0.1:1", // the file wins
		"--nats", "file:" + write("nats", srv.URLOf("worker")), "--postgres", "file:" + write("postgres", storetest.URL(t)),
		"--backends", "local", "--allow-no-isolation", "--slots", "2", "--parked", "0",
	}, os.Stderr, os.Stderr); done {
		t.Fatalf("flags: code %d", code)
	}
	signals, worked := make(chan os.Signal, 1), make(chan error, 1)
	go func() { worked <- runPool(ctx, cfg, &strings.Builder{}, zerolog.Nop(), signals) }()
	ended := make(chan error, 1)
	serving, stopServing := context.WithCancel(ctx)
	nc := srv.ConnectAs("provider-" + natstest.Namespace)
	go func() { ended <- provider.Serve(serving, nc, provider.Math()) }()
	t.Cleanup(func() {
		stopServing()
		if err := <-ended; err != nil {
			t.Errorf("provider: %v", err)
		}
	})
	exercise(ctx, t, srv)
	signals <- syscall.SIGTERM
	if err := <-worked; err != nil {
		t.Errorf("worker: %v", err)
	}
}

// exercise is what a submitter does.
func exercise(ctx context.Context, t *testing.T, srv *natstest.Server) {
	t.Helper()
	nc, err := queue.Connect(ctx, srv.URLOf("submitter-a"), "test", zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	q := attached(ctx, t, func() (*queue.Queue, error) { return queue.Attach(ctx, nc, queue.Config{Tenant: "a"}) })
	defer q.Close()
	until(ctx, t, "a worker", func() bool { w, err := q.Workers(ctx); return err == nil && len(w) == 1 })

	large := strings.Repeat("#", 600_000) + "\nreturn 'x' * 600_000"
	for code, want := range map[string]string{
		"return 6 * 7": "42", "return (await add(a=1, b=2))['sum']": "3", large: `"` + strings.Repeat("x", 600_000) + `"`,
	} {
		r := ran(ctx, t, q, &job.Job{Code: code})
		if r.Status != job.StatusOK || string(r.Value) != want {
			t.Errorf("%.40s: got %s, %.100s, %+v; want %.40s", code, r.Status, r.Value, r.Error, want)
		}
	}
	srv.Restart()
	until(ctx, t, "a worker again", func() bool { w, err := q.Workers(ctx); return err == nil && len(w) == 1 })
	first := ran(ctx, t, q, &job.Job{Code: "return 1", Key: "once"})
	again := prepared(t, &job.Job{Code: "return 1", Key: "once"})
	if receipt, err := q.Submit(ctx, again, queue.SubmitOptions{}); err != nil || !receipt.Known || receipt.Job != first.Job {
		t.Errorf("the same key again: got %+v, %v", receipt, err)
	}
	hanging := prepared(t, &job.Job{Code: "import time\nwhile True: time.sleep(0.1)", Batch: "b"})
	if _, err := q.Submit(ctx, hanging, queue.SubmitOptions{}); err != nil {
		t.Fatal(err)
	}
	until(ctx, t, "a running job", func() bool {
		var record job.Record
		return q.Ask(ctx, "a", "status", jobOrBatch{ID: hanging.ID}, &record) == nil && record.State == job.StateRunning
	})
	if err := q.Cancel(ctx, "a", queue.CancelTarget{Batch: "b"}); err != nil {
		t.Fatal(err)
	}
	if r := resultOf(ctx, t, q, hanging); r.Status != job.StatusCancelled {
		t.Errorf("the cancelled job: got %s", r.Status)
	}
	files := ran(ctx, t, q, &job.Job{Code: "open('big', 'w').write('x' * 700_000)", Collect: []string{"b*"}})
	var file struct {
		Content []byte `json:"content"`
	}
	if err := q.Ask(ctx, "a", "artifact", artifactOf{ID: files.Job, Path: "big"}, &file); err != nil || len(file.Content) != 700_000 {
		t.Errorf("artifact: got %d bytes and error %v, want the file; the result's list is %v", len(file.Content), err, files.Artifacts)
	}
	var missing *queue.RemoteError
	if err := q.Ask(ctx, "a", "artifact", artifactOf{ID: files.Job, Path: "../big"}, &file); !errors.As(err, &missing) || missing.Code != codeNotFound {
		t.Errorf("an artifact that there is not: got %v, want %s", err, codeNotFound)
	}
	for verb, request := range map[string]any{
		"result": jobOrBatch{ID: first.Job}, "calls": jobOrBatch{ID: first.Job}, "batch": listing{Batch: "b"}, "results": listing{Batch: "b"},
		"history": job.Filter{}, "dead": listing{},
	} {
		var answer jsontext.Value
		if err := q.Ask(ctx, "a", verb, request, &answer); err != nil {
			t.Errorf("%s: %v", verb, err)
		}
	}
	if lanes, err := q.Lanes(ctx); err != nil || len(lanes) == 0 {
		t.Errorf("lanes: got %v, %v", lanes, err)
	}
}

func prepared(t *testing.T, j *job.Job) *job.Job {
	t.Helper()
	j.Tenant, j.Requires.Isolation = "a", job.IsolationNone
	j.Tools = []job.Grant{{Namespace: natstest.Namespace, Name: "*"}}
	if err := j.Prepare(time.Now()); err != nil {
		t.Fatal(err)
	}
	return j
}

func ran(ctx context.Context, t *testing.T, q *queue.Queue, j *job.Job) *job.Result {
	t.Helper()
	j = prepared(t, j)
	if _, err := q.Submit(ctx, j, queue.SubmitOptions{}); err != nil {
		t.Fatalf("submit: %v", err)
	}
	return resultOf(ctx, t, q, j)
}

func resultOf(ctx context.Context, t *testing.T, q *queue.Queue, j *job.Job) *job.Result {
	t.Helper()
	results, err := q.Results(ctx, j.Tenant, "", j.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer results.Stop()
	r, err := results.Next(ctx)
	if err != nil {
		t.Fatalf("result: %v", err)
	}
	return r
}

func attached(ctx context.Context, t *testing.T, attach func() (*queue.Queue, error)) (q *queue.Queue) {
	t.Helper()
	until(ctx, t, "a queue", func() bool {
		var err error
		q, err = attach()
		return err == nil
	})
	return q
}

func until(ctx context.Context, t *testing.T, what string, ok func() bool) {
	t.Helper()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}
