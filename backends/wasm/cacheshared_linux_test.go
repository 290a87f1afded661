package wasm_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"airlock/backends/wasm"
)

// TestCacheOfSeveral: a worker whose directory for compiled code another
// spoils while it compiles runs guests from its own, and leaves nothing.
func TestCacheOfSeveral(t *testing.T) {
	t.Parallel()
	python, cache := installed(t, module(join(converse(), constant(0)))), privateDir(t)
	probe := func(h wasm.Helper) error {
		b := wasm.New(wasm.Config{Helper: h, Python: python, Cache: cache, Log: zerologOf(t)})
		_, err := b.Probe(t.Context())
		return errors.Join(err, b.Close())
	}
	if err := probe(helper); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(digestsOf(t, cache))
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "helper")
	if err := writeProgram(path, []byte("#!/bin/sh\nmkdir -p "+dir+"\necho x >"+dir+"/x\nexec "+self+" \"$@\"\n")); err != nil {
		t.Fatal(err)
	}
	if err := probe(wasm.HelperAt(path)); err != nil {
		t.Errorf("got %v beside another that makes the same anew, want none", err)
	}
	left, err := os.ReadDir(cache)
	if err != nil || len(left) != 1 || left[0].Name() != filepath.Base(dir) {
		t.Errorf("got %v in the cache, error %v, want the other's directory alone", left, err)
	}
	if err := probe(helper); err != nil {
		t.Errorf("got %v from the next worker, want none", err)
	}
	digestsOf(t, cache)
}

// TestAWarmCacheIsOnlyRead: what a worker wrote beside its code while it starts,
// another that starts just then would find, and take all for spoilt.
func TestAWarmCacheIsOnlyRead(t *testing.T) {
	t.Parallel()
	python, cache := installed(t, module(join(converse(), constant(0)))), privateDir(t)
	probe := func() {
		b := newBackendIn(t, python, cache, zerologOf(t))
		if _, err := b.Probe(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	probe()
	var dirs []string
	before := time.Now().Add(-time.Hour).Truncate(time.Second)
	err := filepath.WalkDir(filepath.Dir(digestsOf(t, cache)), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		dirs = append(dirs, path)
		return os.Chtimes(path, before, before)
	})
	if err != nil {
		t.Fatal(err)
	}
	probe()
	for _, dir := range dirs {
		if info, err := os.Stat(dir); err != nil || !info.ModTime().Equal(before) {
			t.Errorf("%s was written to by a worker that found its code: %v", dir, err)
		}
	}
}

// TestCacheSwept: what a killed worker was compiling goes with the next start,
// and what another is compiling stays.
func TestCacheSwept(t *testing.T) {
	t.Parallel()
	cache := privateDir(t)
	old, fresh := filepath.Join(cache, ".filling-1"), filepath.Join(cache, ".filling-2")
	before := time.Now().Add(-2 * time.Hour)
	if err := errors.Join(os.MkdirAll(filepath.Join(old, "wazero"), 0o700), os.Mkdir(fresh, 0o700), os.Chmod(cache, 0o700), os.Chtimes(old, before, before)); err != nil {
		t.Fatal(err)
	}
	if _, err := newBackendIn(t, installed(t, module(join(converse(), constant(0)))), cache, zerologOf(t)).Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(old); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v of what was left two hours ago, want it gone", err)
	}
	if _, err := os.Stat(fresh); err != nil {
		t.Errorf("got %v of what another is at, want it there", err)
	}
}
