package memory_test

import (
	"os"
	"path/filepath"
	"testing"

	"airlock/backends/memory"
)

func TestHostTight(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		meminfo string
		want    bool
	}{
		"roomy":             {"MemTotal:       1000 kB\nMemFree:  10 kB\nMemAvailable:    100 kB\n", false},
		"tight":             {"MemTotal:       1000 kB\nMemFree:  10 kB\nMemAvailable:    99 kB\n", true},
		"nothing left":      {"MemTotal:       1000 kB\nMemAvailable:    0 kB\n", true},
		"a kernel too old":  {"MemTotal:       1000 kB\nMemFree:  10 kB\n", false},
		"not what it seems": {"\x00\nMemAvailable: many kB\n\n", false},
	} {
		path := filepath.Join(t.TempDir(), "meminfo")
		if err := os.WriteFile(path, []byte(tt.meminfo), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := memory.HostTight(path); got != tt.want {
			t.Errorf("%s: got tight %v, want %v", name, got, tt.want)
		}
	}
	if memory.HostTight("/no/such/file") {
		t.Error("a host whose memory is not known is tight")
	}
}
