//go:build unix

package interpreter_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"airlock/backends/internal/interpreter"
)

func TestFind(t *testing.T) {
	t.Parallel()
	got, err := interpreter.Find(t.Context(), "", nil)
	if err != nil {
		t.Skip(err)
	}
	if !filepath.IsAbs(got.Path) || !strings.HasPrefix(got.Version, "3.") || len(got.Libraries) == 0 {
		t.Errorf("got %+v, want a path, a version and libraries", got)
	}
	if _, err := os.Stat(filepath.Join(got.Libraries[0], "os.py")); err != nil {
		t.Errorf("the standard library: %v", err)
	}
}

// TestFindNone: each interpreter that will not do is named with the reason.
func TestFindNone(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, script, want string }{
		{"absent", "", "no such file"},
		{"too old", `echo '{"version":"3.9.2","executable":"/x"}'`, "version is 3.9.2, want 3.10 or later"},
		{"broken", `echo "ImportError: no module named json" >&2; exit 1`, "ImportError: no module named json"},
		{"not Python", `echo hello`, "read what it told of itself"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "python3")
			if tt.script != "" {
				// A child that is forked while the file is open for writing would
				// keep it busy.
				syscall.ForkLock.RLock()
				err := os.WriteFile(path, []byte("#!/bin/sh\n"+tt.script+"\n"), 0o755)
				syscall.ForkLock.RUnlock()
				if err != nil {
					t.Fatal(err)
				}
			}
			_, err := interpreter.Find(t.Context(), path, nil)
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("got error %v, want one that names %s and says %q", err, path, tt.want)
			}
		})
	}
}

// TestStage: everybody can read what is staged, whatever our umask is.
func TestStage(t *testing.T) {
	python, err := interpreter.Find(t.Context(), "", nil)
	if err != nil {
		t.Skip(err)
	}
	t.Setenv("TMPDIR", t.TempDir())
	dir, err := interpreter.Stage(t.Context(), python)
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	err = filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		want := os.FileMode(0o644)
		if entry.IsDir() {
			want = 0o755
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s: got mode %v, want %v", path, info.Mode().Perm(), want)
		}
		files++
		return nil
	})
	if err != nil || files < 4 {
		t.Errorf("got %d files, error %v, want the guest's code", files, err)
	}
	if compiled, _ := filepath.Glob(filepath.Join(dir, "*", "__pycache__", "*.pyc")); len(compiled) == 0 {
		t.Error("nothing is compiled ahead")
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Error(err)
	}
}
