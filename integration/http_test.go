package integration_test

import (
	"context"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"airlock/job"
)

// answered is an answer over HTTP.
type answered struct {
	status int
	body   string
}

// ask sends a request, with a body if there is one.
func ask(ctx context.Context, client *http.Client, method, url, token, body string) (answered, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return answered{}, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := client.Do(req)
	if err != nil {
		return answered{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return answered{resp.StatusCode, string(text)}, err
}

// waited is the part of an answer to a job that these tests look at.
type waited struct {
	Result *struct {
		Status job.Status `json:"status"`
		Value  any        `json:"value"`
	} `json:"result"`
}

// TestStandaloneExecutes: the sample request of the tool executor's API gives
// an answer of its sample's shape, by a real guest.
func TestStandaloneExecutes(t *testing.T) {
	t.Parallel()
	url := standaloneEnv(t)["AIRLOCK_HTTP"]
	const sample = `{"code": "import sys\nprint(2 + 2)", "timeout_seconds": 3, "memory_limit_mb": 64, "cpu_limit": 0.5, "allow_network": false}`
	got, err := ask(t.Context(), http.DefaultClient, http.MethodPost, url+"/execute", "", sample)
	if err != nil {
		t.Fatal(err)
	}
	var shape map[string]any
	if err := json.Unmarshal([]byte(got.body), &shape); err != nil || got.status != http.StatusOK {
		t.Fatalf("got %d %s, want the sample's shape: %v", got.status, got.body, err)
	}
	for _, measured := range []string{"execution_time_ms", "memory_used_mb"} {
		if v, ok := shape[measured].(float64); !ok || v <= 0 {
			t.Errorf("got %s %v, want it measured", measured, shape[measured])
		}
		delete(shape, measured)
	}
	want := map[string]any{"status": "success", "stdout": "4\n", "stderr": "", "exit_code": 0.0}
	if diff := cmp.Diff(want, shape); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestExecuteStopsWhatItMust: the statuses and exit codes, by real guests.
func TestExecuteStopsWhatItMust(t *testing.T) {
	t.Parallel()
	url := standaloneEnv(t)["AIRLOCK_HTTP"]
	type end struct {
		Status string `json:"status"`
		Code   int    `json:"exit_code"`
	}
	for request, want := range map[string]end{
		`{"code": "import time\ntime.sleep(60)", "timeout_seconds": 1}`:           {Status: "timeout", Code: 124},
		`{"code": "x = bytearray(300 << 20)", "memory_limit_mb": 64}`:             {Status: "memory_exceeded", Code: 137},
		`{"code": "raise SystemExit(3)"}`:                                         {Status: "error", Code: 3},
		`{"code": "1/0"}`:                                                         {Status: "error", Code: 1},
		`{"code": "import socket; socket.create_connection(('1.1.1.1', 53), 2)"}`: {Status: "error", Code: 1},
	} {
		got, err := ask(t.Context(), http.DefaultClient, http.MethodPost, url+"/execute", "", request)
		var ended end
		if err == nil {
			err = json.Unmarshal([]byte(got.body), &ended)
		}
		if err != nil || got.status != http.StatusOK || ended.Status != want.Status || ended.Code != want.Code {
			t.Errorf("%s: got %d %s, want %s with %d: %v", request, got.status, got.body, want.Status, want.Code, err)
		}
	}
}

// TestStandaloneEndsHTTPAfterItsJobs: who waits for a job that runs hears of
// its end, although the worker was told to leave.
func TestStandaloneEndsHTTPAfterItsJobs(t *testing.T) {
	t.Parallel()
	require(t, "bubblewrap", "bwrap")
	require(t, "postgres", "initdb")
	binary(t, "worker")
	dir := openDir(t)
	p, err := startWorker("--standalone", "--data", dir, "--listen-nats", "127.0.0.1:0", "--listen-http", "127.0.0.1:0", "--slots", "1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	env, err := readEnv(filepath.Join(dir, "airlock.env"))
	if err != nil {
		t.Fatal(err)
	}
	url := env["AIRLOCK_HTTP"]
	var got answered
	done := make(chan error, 1)
	go func() {
		var err error
		got, err = ask(t.Context(), http.DefaultClient, http.MethodPost, url+"/v1/jobs?wait=2m", "", `{"code": "import time\ntime.sleep(3)\nreturn 7"}`)
		done <- err
	}()
	until(t, time.Minute, "the job runs", func() bool {
		jobs, err := ask(t.Context(), http.DefaultClient, http.MethodGet, url+"/v1/jobs", "", "")
		return err == nil && strings.Contains(jobs.body, `"running"`)
	})
	p.stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	var w waited
	if err := json.Unmarshal([]byte(got.body), &w); err != nil || w.Result == nil || w.Result.Value != 7.0 {
		t.Errorf("got %d %s, want the value 7: %v", got.status, got.body, err)
	}
	if p.err != nil {
		t.Errorf("the worker ended with %v\n%s", p.err, p.stderr)
	}
	if _, err := ask(t.Context(), http.DefaultClient, http.MethodGet, url+"/healthz", "", ""); err == nil {
		t.Error("HTTP is still served")
	}
}
