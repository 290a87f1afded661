package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"airlock/backends/all"
	"airlock/backends/docker"

	"airlock/job"
)

func TestListedBackendsShowImagesAndNetwork(t *testing.T) {
	t.Parallel()
	got := render([]listed{
		{Backend: "docker", Available: true, Isolation: job.IsolationStrong, Images: []string{"runner", "sha256:0123456789abcdef0123"}, Network: true},
		{Backend: "forkserver", Available: true, Isolation: job.IsolationStrong, Templates: []string{"data", "xml"}},
		{Backend: "local", Reason: "not asked for"},
	})
	rows := strings.Split(got, "\n")[3:]
	for i, want := range [][]string{{"docker", "runner 0123456789ab", "allowed"}, {"forkserver", "data xml", "none"}, {"local", "not asked for"}} {
		for _, text := range want {
			if !strings.Contains(rows[i], text) {
				t.Errorf("row %d: got %q, want %q in it", i, rows[i], text)
			}
		}
	}
	if strings.Contains(rows[2], "none") || strings.Contains(got, "abcdef0123") {
		t.Errorf("got\n%s\nwant no network for what is not available, and short IDs", got)
	}
}

func TestFlagsReachTheDockerBackend(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	cfg, _, done := parse([]string{
		"--standalone", "--docker-host", "unix:///x", "--images", "a,b", "--guest-network", "guests", "--compose-project", "p",
	}, &out, &errs)
	if done {
		t.Fatal(errs.String())
	}
	got := cfg.docker(zerolog.Nop())
	if got.Host != "unix:///x" || !cmp.Equal(got.Images, []string{"a", "b"}) || got.Network != "guests" || got.Project != "p" {
		t.Errorf("got %+v, want what the flags said", got)
	}
}

// TestANetworkThatIsNotThereIsTold: the backend is offered without it, and the
// reason is on stderr.
func TestANetworkThatIsNotThereIsTold(t *testing.T) {
	t.Parallel()
	needEngine(t)
	var out, errs bytes.Buffer
	if code := run(t.Context(), all.Self{}, []string{"--list-backends", "--json", "--guest-network", "airlock-no-such-network"}, &out, &errs); code != exitOK {
		t.Fatalf("code %d: %s", code, errs.String())
	}
	if !strings.Contains(out.String(), docker.Name) || strings.Contains(out.String(), `"network": true`) || !strings.Contains(errs.String(), "airlock-no-such-network") {
		t.Errorf("printed %s\nsaid %s\nwant docker without a network, and why", out.String(), errs.String())
	}
}
