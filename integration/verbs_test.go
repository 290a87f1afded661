package integration_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"airlock/queue"
	"airlock/queue/natstest"
)

// verb runs a command of the worker.
func verb(t testing.TB, env map[string]string, args ...string) said {
	t.Helper()
	cmd := exec.Command(binary(t, "worker"), args...)
	cmd.Env = os.Environ()
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run() // the code says it
	return said{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// TestVerbsOfADeployment asks a living Airlock what containers' health checks
// ask, with addresses that are in files.
func TestVerbsOfADeployment(t *testing.T) {
	t.Parallel()
	env := map[string]string{}
	for name, value := range standaloneEnv(t) {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(value+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		env[name] = "file:" + path
	}
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"health"}, "takes jobs"},
		{[]string{"health", "--json"}, `"slots"`},
		{[]string{"sample-tools", "--check"}, "served math"},
		{[]string{"migrate"}, "the schema is current"},
	} {
		if got := verb(t, env, tc.args...); got.code != 0 || !strings.Contains(got.stdout, tc.want) {
			t.Errorf("worker %v: %d, %q, %q; want 0 and %q", tc.args, got.code, got.stdout, got.stderr, tc.want)
		}
	}
	if got := submit(t, env, "", "-q", "run", "--code", "return 6 * 7"); got.code != 0 || strings.TrimSpace(got.stdout) != "42" {
		t.Errorf("submit: %d, %q, %q; want 0 and 42", got.code, got.stdout, got.stderr)
	}
}

// TestVerbsSayNo: a check that cannot fail says nothing.
func TestVerbsSayNo(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	nc := server.ConnectAs("worker")
	// A queue that workers have set up and left.
	q, err := queue.Open(t.Context(), nc, queue.Config{Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	here := map[string]string{"AIRLOCK_NATS": server.URLOf("worker")}
	gone := map[string]string{"AIRLOCK_NATS": "nats://127.0.0.1:1", "AIRLOCK_POSTGRES": "postgres://127.0.0.1:1/none", "AIRLOCK_CONNECT_TIMEOUT": "1s"}
	for _, tc := range []struct {
		name string
		env  map[string]string
		args []string
		code int
		want string
	}{
		{"no worker is there", here, []string{"health"}, 4, "none is there"},
		{"nobody serves the tools", map[string]string{"AIRLOCK_NATS": server.URLOf("provider-math")}, []string{"sample-tools", "--check"}, 4, "no responders"},
		{"no server, health", gone, []string{"health"}, 4, "is --nats right"},
		{"no server, tools", gone, []string{"sample-tools"}, 4, "is --nats right"},
		{"no database", gone, []string{"migrate"}, 4, "is --postgres right"},
		{"no such secret", map[string]string{"AIRLOCK_NATS": "file:/none"}, []string{"health"}, 2, "--nats: read secret"},
		{"nothing given", map[string]string{"AIRLOCK_POSTGRES": ""}, []string{"migrate"}, 2, "give --postgres"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := verb(t, tc.env, tc.args...); got.code != tc.code || !strings.Contains(got.stderr, tc.want) {
				t.Errorf("got %d, %q; want %d and %q", got.code, got.stderr, tc.code, tc.want)
			}
		})
	}
}
