package wasm_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"airlock/backends"
	"airlock/backends/wasm"
)

// TestOtherVersion: files that are what their manifest says, of another Python
// than it says.
func TestOtherVersion(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(python(t))); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "manifest.json")
	doc, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	other := bytes.Replace(doc, []byte(`"python": "3.13`), []byte(`"python": "3.12`), 1)
	if err := os.WriteFile(path, other, 0o644); err != nil || bytes.Equal(doc, other) {
		t.Fatalf("got %v and manifest %s, want another version in it", err, other)
	}
	_, err = newBackendIn(t, dir, privateDir(t), zerologOf(t)).Probe(t.Context())
	if !errors.Is(err, backends.ErrUnavailable) || !strings.Contains(err.Error(), "is Python 3.13") || !strings.Contains(err.Error(), "make wasm") {
		t.Errorf("got %v, want ErrUnavailable that names both versions and make wasm", err)
	}
}

// TestHelperFloods: what a process says that never becomes a guest is not
// kept. It measures this process, so it does not run beside other tests.
func TestHelperFloods(t *testing.T) {
	const flood = 64 << 20
	for _, stream := range []string{"1", "2"} {
		path := filepath.Join(t.TempDir(), "helper")
		if err := writeProgram(path, []byte("#!/bin/sh\nhead -c 67108864 /dev/zero >&"+stream+"\nexit 1\n")); err != nil {
			t.Fatal(err)
		}
		b := wasm.New(wasm.Config{Helper: wasm.HelperAt(path), Python: installed(t, module(constant(0))), Cache: privateDir(t)})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := b.Probe(t.Context())
		runtime.ReadMemStats(&after)
		if !errors.Is(err, backends.ErrUnavailable) || len(err.Error()) > 2000 {
			t.Errorf("stream %s: got %.300v, want a short ErrUnavailable", stream, err)
		}
		if kept := after.TotalAlloc - before.TotalAlloc; kept > flood/2 {
			t.Errorf("stream %s: got %d bytes allocated, want much less than the %d that were said", stream, kept, flood)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}
