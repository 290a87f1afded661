package bubblewrap_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"airlock/backends"
	"airlock/backends/bubblewrap"
	"airlock/backends/internal/interpreter"
)

// TestUnavailable: each reason must be one that an operator can act on, and
// nothing may run.
func TestUnavailable(t *testing.T) {
	t.Parallel()
	working := `case "$1" in --version) echo bubblewrap 9;; --help) echo "--json-status-fd --args --size --perms --clearenv --seccomp --remount-ro ";;`
	for _, tt := range []struct {
		name, bwrap, python string
		config              func(*bubblewrap.Config)
		want                []string
	}{
		{name: "no bwrap", bwrap: "", want: []string{"apt-get install bubblewrap"}},
		{name: "too old", bwrap: `case "$1" in --version) echo bubblewrap 0.1;; *) echo "--args FD";; esac`,
			want: []string{"--json-status-fd", "0.5 or later"}},
		{name: "namespaces forbidden", bwrap: working + ` *) echo "bwrap: No permissions to create new namespace" >&2; exit 1;; esac`,
			want: []string{"No permissions to create new namespace", "user namespaces"}},
		{name: "no interpreter", bwrap: working + ` esac`, config: func(c *bubblewrap.Config) { c.Python = "/nonexistent/python3" },
			want: []string{"/nonexistent/python3", "apt-get install python3"}},
		{name: "no such users", bwrap: working + ` esac`, config: func(c *bubblewrap.Config) { c.FirstUID = 1<<32 - 5 },
			want: []string{"not mapped"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.name == "no such users" && os.Geteuid() != 0 {
				t.Skip("only root chooses users for guests")
			}
			config := bubblewrap.Config{Bwrap: fakeBwrap(t, tt.bwrap)}
			if tt.config != nil {
				tt.config(&config)
			}
			b := bubblewrap.New(config)
			defer b.Close()
			_, err := b.Probe(t.Context())
			if !errors.Is(err, backends.ErrUnavailable) {
				t.Fatalf("got error %v, want one that wraps ErrUnavailable", err)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got error %q, want it to say %q", err, want)
				}
			}
		})
	}
}

// fakeBwrap writes a script in place of bwrap; without one it is a path where
// there is none.
func fakeBwrap(t *testing.T, script string) string {
	path := filepath.Join(publicDir(t), "bwrap")
	if script == "" {
		return path
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// publicDir is a directory that other users can reach, unlike t.TempDir's.
func publicDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "airlock-bubblewrap-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestHint(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, said string
		files      map[string]string
		want       string
	}{
		{"debian", "bwrap: No permissions to creating new namespace", map[string]string{"/proc/sys/kernel/unprivileged_userns_clone": "0\n"}, "sysctl -w kernel.unprivileged_userns_clone=1"},
		{"none at all", "bwrap: Creating new namespace failed: No space left on device", map[string]string{"/proc/sys/user/max_user_namespaces": "0\n"}, "sysctl -w user.max_user_namespaces="},
		{"ubuntu", "bwrap: setting up uid map: Permission denied", map[string]string{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1\n"}, "AppArmor profile"},
		{"container", "bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted", nil, "container"},
		{"unreachable", "bwrap: Can't find source path /root/x: Permission denied", nil, "reach"},
		{"nothing known", "bwrap: Unknown option", nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := bubblewrap.Hint(tt.said, func(path string) ([]byte, error) {
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

// TestLayout lays out an interpreter with links on the way and libraries where
// a loader does not look.
func TestLayout(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, sub := range []string{"real/lib/python3.12/lib-dynload", "real/bin", "deep"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "real/bin/python3.12")
	for link, target := range map[string]string{program: self, filepath.Join(dir, "link"): "real"} {
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
	}
	args, err := bubblewrap.Layout(interpreter.Interpreter{
		Path: program, Libraries: []string{dir + "/link/lib/python3.12", dir + "/real/lib/python3.12/lib-dynload"},
		Mapped: []string{dir + "/real/lib/python3.12/lib-dynload/_ssl.so", dir + "/deep/libssl.so.3", "/usr/lib/locale/C.utf8/LC_CTYPE"},
	}, "/stage")
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(args, " ")
	for _, want := range []string{
		fmt.Sprintf("--ro-bind %s/real/lib/python3.12 %s/real/lib/python3.12 ", dir, dir),
		fmt.Sprintf("--symlink real %s/link", dir),
		fmt.Sprintf("--symlink %s %s", self, program),
		fmt.Sprintf("--symlink python3.12 %s/real/bin/python3", dir),
		fmt.Sprintf("--setenv LD_LIBRARY_PATH %s/deep ", dir),
		fmt.Sprintf("--ro-bind %s/deep %s/deep ", dir, dir),
	} {
		if !strings.Contains(got+" ", want) {
			t.Errorf("got no %q in %s", want, got)
		}
	}
	for _, bad := range []string{"locale", "lib-dynload"} {
		if strings.Contains(got, bad) {
			t.Errorf("got %q in %s", bad, got)
		}
	}
}
