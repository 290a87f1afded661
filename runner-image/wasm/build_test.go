package wasm_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// checkout copies what make wasm reads into a folder of its own.
func checkout(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("no bash, which dev/wasm.sh is for")
	}
	root := t.TempDir()
	if err := os.CopyFS(filepath.Join(root, "runner-image", "wasm"), os.DirFS(".")); err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile(filepath.Join("..", "..", "dev", "wasm.sh"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(root, "dev", "wasm.sh"), string(script))
	return root
}

func write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o755); err != nil {
		t.Fatal(err)
	}
}

// script runs a script and returns its exit code and all it said.
func script(t *testing.T, env []string, name string, args ...string) (int, string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", append([]string{name}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// TestBuildElsewhere has make wasm believe it runs on another system.
func TestBuildElsewhere(t *testing.T) {
	t.Parallel()
	root := checkout(t)
	tools := t.TempDir()
	write(t, filepath.Join(tools, "uname"), "#!/bin/sh\necho Darwin arm64\n")
	env := []string{"PATH=" + tools + string(os.PathListSeparator) + os.Getenv("PATH"), "AIRLOCK_WASM_CACHE=" + t.TempDir()}
	code, said := script(t, env, filepath.Join(root, "dev", "wasm.sh"))
	if code != 2 || !strings.Contains(said, "Copy the folder bin/wasm") {
		t.Errorf("got code %d and %q, want 2 and the advice to copy the files", code, said)
	}
}

// TestPresent asks whether the files are whole.
func TestPresent(t *testing.T) {
	t.Parallel()
	root := checkout(t)
	ask := func() int {
		code, _ := script(t, nil, filepath.Join(root, "dev", "wasm.sh"), "present")
		return code
	}
	if got := ask(); got != 1 {
		t.Errorf("got %d without the files, want 1", got)
	}
	out := filepath.Join(root, "bin", "wasm")
	write(t, filepath.Join(out, "python.wasm"), "w")
	write(t, filepath.Join(out, "stdlib.zip"), "z")
	write(t, filepath.Join(out, "manifest.json"), fmt.Sprintf(`{"python": "3.13.5", "files": {"python.wasm": "%x", "stdlib.zip": "%x"}}`,
		sha256.Sum256([]byte("w")), sha256.Sum256([]byte("z"))))
	if got := ask(); got != 0 {
		t.Errorf("got %d with the files, want 0", got)
	}
	write(t, filepath.Join(out, "stdlib.zip"), "y")
	if got := ask(); got != 1 {
		t.Errorf("got %d with a file that was changed, want 1", got)
	}
}

// inputs is the digest of the recipe in a checkout.
func inputs(t *testing.T, root string) string {
	t.Helper()
	recipe := filepath.Join(root, "runner-image", "wasm")
	sum := sha256.New()
	for _, pattern := range []string{"sources.txt", "*.sh", "pack.py", "src/*"} {
		files, err := filepath.Glob(filepath.Join(recipe, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("got no %s, error %v", pattern, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			sum.Write(data)
		}
	}
	return fmt.Sprintf("%x\n", sum.Sum(nil))
}

// TestReuse: what another checkout built is copied, if it is whole and of the
// same recipe; otherwise it would be built, which is refused on this system.
func TestReuse(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		spoil func(t *testing.T, built string)
		want  int
	}{
		{"the same", func(*testing.T, string) {}, 0},
		{"another recipe", func(t *testing.T, built string) { write(t, filepath.Join(built, "inputs"), "another\n") }, 2},
		{"a file that was changed", func(t *testing.T, built string) { write(t, filepath.Join(built, "python.wasm"), "v") }, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			root, cache, tools := checkout(t), t.TempDir(), t.TempDir()
			built := filepath.Join(cache, "built")
			write(t, filepath.Join(built, "python.wasm"), "w")
			write(t, filepath.Join(built, "stdlib.zip"), "z")
			write(t, filepath.Join(built, "manifest.json"), fmt.Sprintf(`{"python": "3.13.5", "files": {"python.wasm": "%x", "stdlib.zip": "%x"}}`,
				sha256.Sum256([]byte("w")), sha256.Sum256([]byte("z"))))
			write(t, filepath.Join(built, "inputs"), inputs(t, root))
			tt.spoil(t, built)
			write(t, filepath.Join(tools, "uname"), "#!/bin/sh\necho Darwin arm64\n")
			env := []string{"PATH=" + tools + string(os.PathListSeparator) + os.Getenv("PATH"), "AIRLOCK_WASM_CACHE=" + cache}
			code, said := script(t, env, filepath.Join(root, "dev", "wasm.sh"))
			if code != tt.want {
				t.Errorf("got code %d and %q, want %d", code, said, tt.want)
			}
			if got, err := os.ReadFile(filepath.Join(root, "bin", "wasm", "python.wasm")); (string(got) == "w") != (tt.want == 0) {
				t.Errorf("got %q and error %v, want it copied only when it is the same", got, err)
			}
		})
	}
}

// TestFetch downloads from a mirror of its own.
func TestFetch(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"curl", "sha256sum", "dpkg-deb"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("no %s, which make wasm asks for", tool)
		}
	}
	root := checkout(t)
	mirror, cache := t.TempDir(), t.TempDir()
	write(t, filepath.Join(mirror, "pool", "a.tar.xz"), "as pinned")
	fetch := func(digest [32]byte) (int, string) {
		recipe := filepath.Join(root, "runner-image", "wasm")
		write(t, filepath.Join(recipe, "sources.txt"), fmt.Sprintf("%x pool/a.tar.xz\n", digest))
		return script(t, []string{"AIRLOCK_DEBIAN_MIRROR=file://" + mirror}, filepath.Join(recipe, "fetch.sh"), cache)
	}
	file := filepath.Join(cache, "downloads", "a.tar.xz")
	code, said := fetch(sha256.Sum256([]byte("another")))
	if code != 2 || !strings.Contains(said, "has another digest") || !strings.Contains(said, "AIRLOCK_DEBIAN_MIRROR") {
		t.Errorf("got code %d and %q for a file that is not the pinned one, want 2 and what to do", code, said)
	}
	if _, err := os.Stat(file); err == nil {
		t.Errorf("got a file that is not the pinned one, want none")
	}
	if code, said := fetch(sha256.Sum256([]byte("as pinned"))); code != 0 {
		t.Errorf("got code %d and %q for the pinned file, want 0", code, said)
	}
	if got, err := os.ReadFile(file); string(got) != "as pinned" {
		t.Errorf("got %q and %v, want the pinned file", got, err)
	}
}
