package wasmguest_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"airlock/backends/internal/wasmguest"
)

// TestCheckKept: no guest runs, and none finds later, what a hollow module
// itself was compiled to.
func TestCheckKept(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		meanwhile func(file string) error
		kept      bool
		stays     bool
	}{
		{"nothing", func(string) error { return nil }, true, true},
		{"removed", os.Remove, false, false},
		{"made anew by another worker", func(file string) error {
			return errors.Join(os.Remove(file), os.WriteFile(file, []byte("actual"), 0o600), os.Chtimes(file, time.Time{}, time.Now().Add(time.Second)))
		}, false, true},
		{"written again", func(file string) error {
			return errors.Join(os.Remove(file), os.WriteFile(file, []byte("the hollow one"), 0o600))
		}, false, false},
		{"overwritten", func(file string) error {
			return errors.Join(os.WriteFile(file, []byte("hollow's"), 0o600), os.Chtimes(file, time.Time{}, time.Now().Add(time.Second)))
		}, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir, err := os.MkdirTemp("", "airlock-test-") // T.TempDir's cannot be removed under Wine
			if err != nil {
				t.Fatal(err)
			}
			defer wasmguest.RemoveTree(dir)
			file := filepath.Join(dir, "code")
			if err := os.WriteFile(file, []byte("actual"), 0o600); err != nil {
				t.Fatal(err)
			}
			before, err := os.Stat(file)
			if err = errors.Join(err, c.meanwhile(file)); err != nil {
				t.Fatal(err)
			}
			err = wasmguest.CheckKept(file, before)
			if _, gone := os.Stat(file); (err == nil) != c.kept || errors.Is(gone, fs.ErrNotExist) == c.stays {
				t.Errorf("got %v, and of the file %v, want it kept: %t, and there: %t", err, gone, c.kept, c.stays)
			}
		})
	}
}
