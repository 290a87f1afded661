package integration_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"

	"airlock/job"
)

// A worker that is told of a collector sends it each call of a real job, below
// the submitter's own trace, and nothing of what the guest wrote.
func TestSpansOfAJob(t *testing.T) {
	t.Parallel()
	require(t, "bubblewrap", "bwrap")
	require(t, "postgres", "initdb")
	binary(t, "worker")
	var mu sync.Mutex
	var body []byte // guarded by mu
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		sent, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		body = append(body, sent...)
	}))
	defer collector.Close()
	dir, err := os.MkdirTemp("", "airlock-otel-") // another user's Postgres must reach it
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	worker, err := startWorker("--standalone", "--data", dir, "--listen-nats", "127.0.0.1:0", "--slots", "1", "--parked", "0", "--otel", collector.URL)
	if err != nil {
		t.Fatal(err)
	}
	env, err := readEnv(filepath.Join(dir, "airlock.env"))
	if err != nil {
		t.Fatal(err)
	}
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	said := submit(t, env, "return (await add(a='471147114711', b='1'))['sum']", "run", "-", "--json", "--tools", "math.add", "--label", "traceparent="+parent)
	var r job.Result
	if err := json.Unmarshal([]byte(said.stdout), &r); err != nil || string(r.Value) != "471147114712" {
		t.Fatalf("got %s (%v), want 471147114712", said.stdout, err)
	}
	worker.stop() // which sends what is left
	mu.Lock()
	defer mu.Unlock()
	for _, want := range []string{"airlock.attempt", "execute_tool add", "gen_ai.tool.call.id", r.Job.String() + ".1.1", "\x0a\xf7\x65\x19\x16\xcd\x43\xdd\x84\x48\xeb\x21\x1c\x80\x31\x9c"} {
		if !bytes.Contains(body, []byte(want)) {
			t.Errorf("%q is not in what was sent", want)
		}
	}
	for _, never := range []string{"471147114711", "471147114712"} {
		if bytes.Contains(body, []byte(never)) {
			t.Errorf("%s of the guest is in what was sent", never)
		}
	}
}
