package integration_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

// gatewayCommand is the gateway's binary with the services in its environment.
func gatewayCommand(t *testing.T, s *services, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(binary(t, "gateway"), args...)
	cmd.Env = os.Environ()
	for name, value := range s.env() {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	return cmd
}

// gatewaySays runs a command of the gateway that comes to an end.
func gatewaySays(t *testing.T, s *services, args ...string) said {
	t.Helper()
	cmd := gatewayCommand(t, s, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run() // its exit code is looked at
	return said{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// startGateway returns a running gateway and its URL.
func startGateway(t *testing.T, s *services, args ...string) (cmd *exec.Cmd, url string) {
	t.Helper()
	cmd = gatewayCommand(t, s, append([]string{"--listen-http", "127.0.0.1:0"}, args...)...)
	out, errs := &transcript{}, &transcript{}
	cmd.Stdout, cmd.Stderr = out, errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it may have been waited for
		if t.Failed() {
			t.Logf("the gateway said\n%s", errs)
		}
	})
	until(t, time.Minute, "the gateway is ready", func() bool { return strings.HasSuffix(out.String(), "ready\n") })
	return cmd, regexp.MustCompile(`https?://[0-9.:]+`).FindString(out.String())
}

// trusting is a client that knows the certificate's maker.
func trusting(t *testing.T, cert string) *http.Client {
	t.Helper()
	raw, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(raw) {
		t.Fatalf("%s holds no certificate", cert)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "localhost", MinVersion: tls.VersionTLS12}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// TestGatewayBesideAPool: HTTPS and tokens, from their making to their end, and
// a gateway that leaves.
func TestGatewayBesideAPool(t *testing.T) {
	t.Parallel()
	s := startServices(t)
	s.worker(t)
	if got := gatewaySays(t, s, "--listen-http", "0.0.0.0:0"); got.code != 2 || !strings.Contains(got.stderr, "gateway token create") {
		t.Errorf("open to all without a token: got exit %d, %s, want 2 and what to do", got.code, got.stderr)
	}
	made := gatewaySays(t, s, "token", "create", "--tenant", "lab", "--scopes", "submit,read", "--json")
	var token struct {
		ID    string `json:"id"`
		Token string `json:"token"`
	}
	if err := json.Unmarshal([]byte(made.stdout), &token); err != nil || made.code != 0 {
		t.Fatalf("token create: exit %d, %s%s: %v", made.code, made.stdout, made.stderr, err)
	}
	dir := t.TempDir()
	writeCertificate(t, dir)
	cert, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	gateway, url := startGateway(t, s, "--tls-cert", cert, "--tls-key", key)
	client := trusting(t, cert)
	asked := func(method, path, token, body string, want int) string {
		t.Helper()
		got, err := ask(t.Context(), client, method, url+path, token, body)
		if err != nil {
			t.Fatal(err)
		}
		if got.status != want {
			t.Errorf("%s %s: got %d %s, want %d", method, path, got.status, got.body, want)
		}
		return got.body
	}
	health := []string{"health", "--listen-http", strings.TrimPrefix(url, "https://"), "--tls-cert", cert}
	if got := gatewaySays(t, s, health...); got.code != 0 || !strings.HasSuffix(got.stdout, " is ready\n") {
		t.Errorf("health: got exit %d, %s%s, want 0", got.code, got.stdout, got.stderr)
	}
	asked(http.MethodGet, "/v1/jobs", "", "", http.StatusUnauthorized)
	asked(http.MethodGet, "/v1/jobs", "airlock_wrong", "", http.StatusUnauthorized)
	if ran := asked(http.MethodPost, "/v1/jobs?wait=1m", token.Token, `{"code": "return 6 * 7"}`, http.StatusOK); !strings.Contains(ran, `"value":42`) || !strings.Contains(ran, `"tenant":"lab"`) {
		t.Errorf("got %s, want 42 for the tenant lab", ran)
	}
	asked(http.MethodDelete, "/v1/batches/any", token.Token, "", http.StatusForbidden)

	cut := make(chan answered, 1)
	go func() {
		got, err := ask(t.Context(), client, http.MethodPost, url+"/v1/jobs?wait=5m", token.Token, `{"code": "import time\ntime.sleep(120)", "limits": {"wall": "3m"}}`)
		if err != nil {
			t.Error(err)
		}
		cut <- got
	}()
	until(t, time.Minute, "the job runs", func() bool {
		got, err := ask(t.Context(), client, http.MethodGet, url+"/v1/jobs", token.Token, "")
		return err == nil && strings.Contains(got.body, `"running"`)
	})
	if err := gateway.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := gateway.Wait(); err != nil {
		t.Errorf("SIGTERM: the gateway ended with %v, want a graceful end", err)
	}
	if got := gatewaySays(t, s, health...); got.code != 4 || !strings.Contains(got.stderr, "is it up") {
		t.Errorf("health of one that has left: got exit %d, %s%s, want 4", got.code, got.stdout, got.stderr)
	}
	if got := <-cut; got.status != http.StatusAccepted || !strings.Contains(got.body, `"id"`) {
		t.Errorf("who waited got %d %s, want 202 and the job to come back to", got.status, got.body)
	}

	if got := gatewaySays(t, s, "token", "revoke", token.ID); got.code != 0 {
		t.Errorf("token revoke: exit %d, %s", got.code, got.stderr)
	}
	_, url = startGateway(t, s, "--tls-cert", cert, "--tls-key", key)
	asked(http.MethodGet, "/v1/jobs", token.Token, "", http.StatusUnauthorized)
}
