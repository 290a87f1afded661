package secret_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"airlock/cmd/internal/secret"
)

func TestRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"good": "nats://worker:pass@nats:4222\n", "empty": " \n", "large": strings.Repeat("hush", 20_000),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		name, value, want, err string
	}{
		{"no file", "nats://here:4222", "nats://here:4222", ""},
		{"nothing", "", "", ""},
		{"a file", "file:" + filepath.Join(dir, "good"), "nats://worker:pass@nats:4222", ""},
		{"no such file", "file:" + filepath.Join(dir, "none"), "", "read secret"},
		{"an empty file", "file:" + filepath.Join(dir, "empty"), "", "want one value"},
		{"a large file", "file:" + filepath.Join(dir, "large"), "", "want one value"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := secret.Read(tc.value)
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("got error %v, want %q", err, tc.err)
			}
			if err != nil && strings.Contains(err.Error(), "hush") {
				t.Errorf("the error tells the secret: %v", err)
			}
		})
	}
}
