package forkserver_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"airlock/backends"
	"airlock/backends/forkserver"

	"golang.org/x/sys/unix"
)

// TestUnavailable: each reason must be one that an operator can act on, and
// nothing may run.
func TestUnavailable(t *testing.T) {
	t.Parallel()
	root := os.Geteuid() == 0
	for _, tt := range []struct {
		name     string
		config   forkserver.Config
		rootOnly bool
		want     []string
	}{
		{name: "no launcher", config: forkserver.Config{}, want: []string{"forkserver.Main"}},
		{name: "no interpreter", config: forkserver.Config{Launcher: launcher, Python: "/nonexistent/python3"},
			want: []string{"/nonexistent/python3", "apt-get install python3"}},
		{name: "no interpreter that guests may read", config: forkserver.Config{Launcher: launcher, Python: privatePython(t)},
			rootOnly: true, want: []string{"permission denied", "where every user may read it"}},
		{name: "no such users", config: forkserver.Config{Launcher: launcher, FirstUID: 1<<32 - 5}, rootOnly: true, want: []string{"not mapped"}},
		{name: "no such launcher", config: forkserver.Config{Launcher: forkserver.LauncherAt("/nonexistent/launcher")},
			want: []string{"start launcher", "/nonexistent/launcher"}},
		{name: "launcher that fails", config: forkserver.Config{Launcher: forkserver.LauncherAt(failing(t))},
			want: []string{"start template", "the process has ended", "what it says"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.rootOnly && !root {
				t.Skip("only root chooses users for guests")
			}
			b := forkserver.New(tt.config)
			for range 2 { // as a worker does, again and again
				_, err := b.Probe(t.Context())
				if !errors.Is(err, backends.ErrUnavailable) {
					t.Fatalf("got error %v, want one that wraps ErrUnavailable", err)
				}
				for _, want := range tt.want {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("got error %q, want it to say %q", err, want)
					}
				}
			}
			closesClean(t, b)
		})
	}
}

// privatePython is an interpreter below a directory that only we may enter.
func privatePython(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(publicDir(t), "private")
	path := filepath.Join(dir, "python3")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.Symlink("/usr/bin/python3", path)); err != nil {
		t.Fatal(err)
	}
	return path
}

func failing(t *testing.T) string {
	t.Helper()
	path := filepath.Join(publicDir(t), "fails")
	if err := os.WriteFile(path, []byte("#!/bin/sh\necho beginning >&2\necho what it says >&2\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestHint names the setting that forbids namespaces, for refusals only.
func TestHint(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		err   error
		files map[string]string
		want  string
	}{
		{"debian", unix.EPERM, map[string]string{"/proc/sys/kernel/unprivileged_userns_clone": "0\n"}, "sysctl -w kernel.unprivileged_userns_clone=1"},
		{"none at all", unix.ENOSPC, map[string]string{"/proc/sys/user/max_user_namespaces": "0\n"}, "sysctl -w user.max_user_namespaces="},
		{"ubuntu", unix.EACCES, map[string]string{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1\n"}, "AppArmor profile"},
		{"container", unix.EPERM, nil, "a container must be started"},
		{"no room", unix.EAGAIN, map[string]string{"/proc/sys/user/max_user_namespaces": "0\n"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := forkserver.Hint(&os.PathError{Op: "fork/exec", Path: "x", Err: tt.err}, func(path string) ([]byte, error) {
				if text, ok := tt.files[path]; ok {
					return []byte(text), nil
				}
				return nil, os.ErrNotExist
			})
			if !strings.Contains(got, tt.want) || tt.want == "" && got != "" {
				t.Errorf("got %q, want it to say %q", got, tt.want)
			}
		})
	}
}

// TestTemplateIsAlone: no module of the standard library starts threads when it
// is imported, so processes stand in for templates.
func TestTemplateIsAlone(t *testing.T) {
	t.Parallel()
	if err := forkserver.CheckAlone(sleeper(t)); err != nil {
		t.Errorf("got error %v for a process with one thread", err)
	}
	if err := forkserver.CheckAlone(os.Getpid()); err == nil || !strings.Contains(err.Error(), "threads") {
		t.Errorf("got error %v for this process, want one that says it has threads", err)
	}
	b, _ := open(t, forkserver.Config{})
	if err := forkserver.CheckAlone(treeOf(t, b).template); err != nil {
		t.Errorf("got error %v for a template", err)
	}
}

// TestFailedProbeLeavesNothing: the next one prepares anew, and a worker probes
// again and again.
func TestFailedProbeLeavesNothing(t *testing.T) {
	t.Parallel()
	b, _ := open(t, forkserver.Config{})
	it := treeOf(t, b)
	bound(t, it.template, unix.RLIMIT_NPROC, 0)
	kill(t, it.slots()[0], unix.SIGKILL)
	if _, err := b.Probe(t.Context()); !errors.Is(err, backends.ErrUnavailable) {
		t.Fatalf("got error %v from a template that cannot fork, want ErrUnavailable", err)
	}
	if alive(it.launcher) {
		t.Error("a failed probe leaves its template")
	}
	if _, err := b.Probe(t.Context()); err != nil {
		t.Errorf("got error %v from the next probe", err)
	}
	works(t, b)
	closesClean(t, b)
}
