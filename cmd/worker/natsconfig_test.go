package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/rs/zerolog"

	"airlock/backends/all"
	"airlock/cmd/internal/secret"
	"airlock/queue"
)

func natsConfig(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(context.Background(), all.Self{}, append([]string{"nats-config"}, args...), &out, &errs)
	return out.String(), errs.String(), code
}

func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(text)
	}
	return files
}

func TestNATSConfigKeepsPasswordsAndRotatesOne(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "nats")
	args := []string{"--out", dir, "--submitter", "a,b", "--provider", "math", "--analyst", "a", "--approver", "a"}
	out, errs, code := natsConfig(t, args...)
	if code != exitOK {
		t.Fatalf("code %d: %s", code, errs)
	}
	first := contents(t, dir)
	for _, file := range []string{"nats.conf", "admin.url", "worker.url", "submitter-a.url", "submitter-b.url", "provider-math.url", "analyst-a.url", "approver-a.url"} {
		if first[file] == "" {
			t.Errorf("%s was not written", file)
		}
	}
	for file, text := range first {
		info, err := os.Stat(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, ".url") && info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, want 0600", file, info.Mode())
		}
		if password, err := passwordIn(filepath.Join(dir, file)); strings.HasSuffix(file, ".url") &&
			(err != nil || len(password) < 40 || strings.Contains(out, password) || strings.Contains(first["nats.conf"], password)) {
			t.Errorf("%s: the password is short, or in stdout, or readable in nats.conf: %v", file, err)
		} else if text == "" {
			t.Errorf("%s is empty", file)
		}
	}
	if _, errs, code := natsConfig(t, args...); code != exitOK {
		t.Fatalf("second run: code %d: %s", code, errs)
	}
	second := contents(t, dir)
	for file, text := range first {
		if second[file] != text {
			t.Errorf("the second run changed %s", file)
		}
	}
	if _, errs, code := natsConfig(t, append(args, "--rotate", "submitter-a")...); code != exitOK {
		t.Fatalf("rotate: code %d: %s", code, errs)
	}
	third := contents(t, dir)
	for file, text := range first {
		if changed := third[file] != text; changed != (file == "submitter-a.url" || file == "nats.conf") {
			t.Errorf("rotating submitter-a: %s changed %v", file, changed)
		}
	}
}

// The files are what a server and its clients take.
func TestNATSConfigServes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, errs, code := natsConfig(t, "--out", dir, "--listen", "127.0.0.1:0", "--store-dir", t.TempDir(), "--max-store", "1GiB"); code != exitOK {
		t.Fatal(errs)
	}
	opts, err := server.ProcessConfigFile(filepath.Join(dir, "nats.conf"))
	if err != nil {
		t.Fatal(err)
	}
	if opts.JetStreamMaxStore != 1<<30 {
		t.Errorf("got a store of %d bytes, want 1 GiB", opts.JetStreamMaxStore)
	}
	opts.Port, opts.NoLog, opts.NoSigs = server.RANDOM_PORT, true, true
	s, err := server.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	defer s.WaitForShutdown()
	defer s.Shutdown()
	address := strings.TrimPrefix(s.ClientURL(), "nats://")
	for _, user := range []string{"worker", "submitter-default", "admin"} {
		url, err := secret.Read("file:" + filepath.Join(dir, user+".url"))
		if err != nil {
			t.Fatal(err)
		}
		nc, err := queue.Connect(t.Context(), strings.Replace(url, "127.0.0.1:4222", address, 1), "test", zerolog.Nop())
		if err != nil {
			t.Fatalf("%s: %v", user, err)
		}
		if inbox := nc.NewInbox(); !strings.HasPrefix(inbox, "_INBOX."+user+".") {
			t.Errorf("%s: got inbox %s", user, inbox)
		}
		nc.Close()
	}
	short, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := queue.Connect(short, "nats://worker:wrong@"+address, "test", zerolog.Nop()); err == nil {
		t.Error("got in with a wrong password")
	}
	if _, err := queue.Connect(short, "nats://"+address, "test", zerolog.Nop()); err == nil {
		t.Error("got in without a user")
	}
}

func TestNATSConfigOfACluster(t *testing.T) {
	dir := t.TempDir()
	args := []string{
		"--out", dir, "--cluster", "airlock", "--route", "nats://n1:6222", "--route", "nats://n2:6222", "--route", "nats://n3:6222",
		"--tls-cert", "/certs/server.pem", "--tls-key", "/certs/server.key", "--monitor", "127.0.0.1:8222",
	}
	if _, errs, code := natsConfig(t, args...); code != exitOK {
		t.Fatal(errs)
	}
	text := contents(t, dir)["nats.conf"]
	// The parser opens certificates, which are not there.
	text = withoutTLS(text)
	path := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("NATS_SERVER_NAME", "n1")
	opts, err := server.ProcessConfigFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if opts.ServerName != "n1" || opts.Cluster.Name != "airlock" || len(opts.Routes) != 3 || opts.Cluster.Password == "" || opts.HTTPPort != 8222 {
		t.Errorf("got server %q of cluster %q with %d routes, monitor %d", opts.ServerName, opts.Cluster.Name, len(opts.Routes), opts.HTTPPort)
	}
	if password, _ := opts.Routes[0].User.Password(); password != opts.Cluster.Password {
		t.Error("the routes have another password than the cluster")
	}
	if info, err := os.Stat(filepath.Join(dir, "nats.conf")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("nats.conf holds the password of routes: got mode %v, %v", info.Mode(), err)
	}
	before := contents(t, dir)["nats.conf"]
	if natsConfig(t, args...); contents(t, dir)["nats.conf"] != before {
		t.Error("the second run changed nats.conf")
	}
}

func withoutTLS(conf string) string {
	var kept []string
	inside := false
	for line := range strings.Lines(conf) {
		switch trimmed := strings.TrimSpace(line); {
		case trimmed == "tls {":
			inside = true
		case inside && trimmed == "}":
			inside = false
		case !inside:
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

// Without a directory nothing secret is made or shown.
func TestNATSConfigOnStdoutHoldsNoSecret(t *testing.T) {
	out, errs, code := natsConfig(t, "--submitter", "a", "--provider", "math")
	if code != exitOK {
		t.Fatal(errs)
	}
	path := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(path, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, user := range []string{"ADMIN", "WORKER", "SUBMITTER_A", "PROVIDER_MATH"} {
		t.Setenv("NATS_PASSWORD_"+user, "from_the_environment_"+user)
	}
	opts, err := server.ProcessConfigFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(opts.Users) != 4 {
		t.Errorf("got %d users, want 4", len(opts.Users))
	}
	for _, u := range opts.Users {
		if !strings.HasPrefix(u.Password, "from_the_environment_") {
			t.Errorf("%s: got password %q", u.Username, u.Password)
		}
	}
	if again, _, _ := natsConfig(t, "--submitter", "a", "--provider", "math"); again != out {
		t.Error("two runs print different configurations")
	}
}

func TestNATSConfigRefuses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		args []string
		want string
	}{
		{"a tenant of two tokens", []string{"--submitter", "a.b"}, "a.b"},
		{"every tenant", []string{"--submitter", "*"}, "tenant"},
		{"every namespace", []string{"--provider", ">"}, "namespace"},
		{"a tenant twice", []string{"--submitter", "a", "--submitter", "a"}, "twice"},
		{"a rotation of nobody", []string{"--out", t.TempDir(), "--rotate", "x"}, "--rotate"},
		{"a rotation of nothing", []string{"--rotate", "worker"}, "--out"},
		{"a password in the URL", []string{"--url", "nats://u:p@h:1"}, "--url"},
		{"half of tls", []string{"--tls-cert", "x"}, "key"},
		{"routes of no cluster", []string{"--route", "nats://h:1"}, "cluster"},
		{"a route without a port", []string{"--cluster", "c", "--route", "h"}, "route"},
		{"an address without a port", []string{"--listen", "h"}, "listen"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			out, errs, code := natsConfig(t, tc.args...)
			if code != exitUsage || !strings.Contains(errs, tc.want) || out != "" {
				t.Errorf("got code %d, stderr %q, stdout %q; want %d and %q", code, errs, out, exitUsage, tc.want)
			}
		})
	}
}
