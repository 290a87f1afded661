package main

import (
	"strings"
	"testing"

	"airlock/job"
)

func TestListedBackendsShowImagesAndNetwork(t *testing.T) {
	t.Parallel()
	got := render([]listed{
		{Backend: "docker", Available: true, Isolation: job.IsolationStrong, Images: []string{"runner", "sha256:0123456789abcdef0123"}, Network: true},
		{Backend: "bubblewrap", Available: true, Isolation: job.IsolationStrong},
		{Backend: "local", Reason: "not asked for"},
	})
	rows := strings.Split(got, "\n")[3:]
	for i, want := range [][]string{{"docker", "runner 0123456789ab", "allowed"}, {"bubblewrap", "none"}, {"local", "not asked for"}} {
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
