package hostids

import (
	"os"
	"path/filepath"
	"testing"
)

func TestMapped(t *testing.T) {
	t.Parallel()
	const first = 1_900_000_000
	for _, tt := range []struct {
		name, file string
		first      int
		kind       Kind
		want       int
		fails      bool
	}{
		{"the host", "0 0 4294967295\n", first, Started, first, false},
		{"a container", "0 100000 65536\n", first, Started, 65536 - 1024, false},
		{"a container, the other kind", "0 100000 65536\n", first, Forked, 65536 - 2048, false},
		{"a container with one block", "0 100000 2048\n", first, Forked, 0, true},
		{"two extents", "0 1000 1\n1 100000 65536\n", first, Started, 65537 - 1024, false},
		{"one user", "0 1000 1\n", first, Started, 0, true},
		{"nonsense", "x\n", first, Started, 0, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "map")
			if err := os.WriteFile(path, []byte(tt.file), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := mapped(path, tt.first, tt.kind)
			if got != tt.want || (err != nil) != tt.fails {
				t.Errorf("got %d and error %v, want %d", got, err, tt.want)
			}
		})
	}
}
