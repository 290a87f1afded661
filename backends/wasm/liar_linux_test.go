package wasm_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"airlock/backends"
	"airlock/backends/wasm"

	"golang.org/x/sys/unix"
)

// played is a backend whose processes are a shell's. A process's descriptors
// are those that a guest's has: 7 is for the image of the interpreter.
func played(t *testing.T, script string) *wasm.Backend {
	t.Helper()
	path := filepath.Join(t.TempDir(), "helper")
	if err := writeProgram(path, []byte("#!/bin/sh\n"+script)); err != nil {
		t.Fatal(err)
	}
	b := wasm.New(wasm.Config{Helper: wasm.HelperAt(path), Python: installed(t, module(constant(0))), Cache: privateDir(t), Log: zerologOf(t)})
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return b
}

// TestHelperLies: a process that does not make what it was started for makes
// the backend unavailable, with what it did instead, and leaves nothing.
func TestHelperLies(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, script, want string }{
		{"says nothing", "echo x >&7\nexit 0\n", "read what it has made"},
		{"says junk", "echo x >&7\nhead -c 1000 /dev/urandom\n", "read what it has made"},
		{"says more than is asked", "echo x >&7\necho '{\"code\":\"\",\"other\":1}'\n", "read what it has made"},
		{"has made code elsewhere", "echo x >&7\necho '{\"code\":\"/etc/passwd\"}'\n", "outside its cache"},
		{"dies", "kill -9 $$\n", "signal: killed"},
		{"fails", "echo no room >&2\nexit 3\n", "no room"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := played(t, tt.script).Probe(t.Context())
			if !errors.Is(err, backends.ErrUnavailable) || !strings.Contains(err.Error(), tt.want) || len(err.Error()) > 2000 {
				t.Errorf("got %.300v, want a short ErrUnavailable that says %q", err, tt.want)
			}
		})
	}
}

// TestHelperStalls: one that never gets ready is ended with the probe's time.
func TestHelperStalls(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	started := filepath.Join(dir, "pid")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	b := played(t, "echo $$ >"+started+".part; mv "+started+".part "+started+"\nexec sleep 1000\n")
	probing, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		_, err := b.Probe(probing)
		done <- err
	}()
	for {
		if _, err := os.Stat(started); err == nil {
			break
		}
		select {
		case err := <-done:
			t.Fatalf("got %v before it was started", err)
		case <-ctx.Done():
			t.Fatal("got no process, want one")
		case <-time.After(10 * time.Millisecond):
		}
	}
	stop()
	select {
	case err := <-done:
		if err == nil {
			t.Error("got no error, want one")
		}
	case <-ctx.Done():
		t.Fatal("got a probe that goes on without its time, want it over")
	}
}

// TestForeignCache: compiled code that another user could have written is
// refused, and so is what is no directory.
func TestForeignCache(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give a directory away")
	}
	const stranger = 1_900_000_000
	given, file := filepath.Join(t.TempDir(), "cache"), filepath.Join(t.TempDir(), "cache")
	err := errors.Join(os.Mkdir(given, 0o700), os.Chown(given, stranger, stranger), os.Symlink(t.TempDir(), file))
	if err != nil {
		t.Fatal(err)
	}
	good := installed(t, module(join(converse(), constant(0))))
	for dir, want := range map[string]string{given: "belongs to another user", file: "is no directory"} {
		_, err := newBackendIn(t, good, dir, zerologOf(t)).Probe(t.Context())
		if !errors.Is(err, backends.ErrUnavailable) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want ErrUnavailable that says %q", err, want)
		}
	}
}

// TestSealed: what guests begin from can be changed by nobody, through no
// descriptor: neither its bytes nor its size.
func TestSealed(t *testing.T) {
	t.Parallel()
	f, err := wasm.Share("image", make([]byte, 1<<16))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, written := f.WriteAt([]byte("x"), 0)
	_, mapped := unix.Mmap(int(f.Fd()), 0, 1<<16, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	for what, err := range map[string]error{"write": written, "shrink": f.Truncate(1), "grow": f.Truncate(1 << 17), "map": mapped} {
		if !errors.Is(err, syscall.EPERM) {
			t.Errorf("%s: got %v, want EPERM", what, err)
		}
	}
}
