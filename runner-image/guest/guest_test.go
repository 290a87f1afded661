package guest_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"airlock/runner-image/guest"

	"github.com/google/go-cmp/cmp"
)

// python returns the interpreter of the host, which bubblewrap uses too.
func python(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"/usr/bin/python3", "python3"} {
		if found, err := exec.LookPath(name); err == nil {
			return found
		}
	}
	if required := "," + os.Getenv("AIRLOCK_REQUIRE") + ","; strings.Contains(required, ",bubblewrap,") {
		t.Fatal("no python3 found, which AIRLOCK_REQUIRE=bubblewrap needs")
	}
	t.Skip("no python3 found")
	return ""
}

// TestPython runs the unittests of ../tests, so that they are part of the Go
// tests. They also play the transcripts of broker/testdata/wire.
func TestPython(t *testing.T) {
	t.Parallel()
	readAll(t, "../tests/*.py")
	readAll(t, "../../broker/testdata/wire/conversation-*.txtar")
	cmd := exec.CommandContext(t.Context(), python(t), "-B", "-m", "unittest", "discover", "-s", "../tests")
	cmd.Env = append(os.Environ(), "PYTHONUNBUFFERED=", "PYTHONPATH=")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("got %v, want all Python tests to pass:\n%s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	for _, line := range lines {
		if strings.HasPrefix(line, "Ran ") {
			t.Log(line)
			return
		}
	}
	t.Fatalf("got no count of tests, want one:\n%s", out)
}

// readAll reads what the Python tests read, so that go test runs them again
// when it changes: it does not see what a child process opens.
func readAll(t *testing.T, pattern string) {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("got %v and error %v for %s, want files", names, err, pattern)
	}
	for _, name := range names {
		if _, err := os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFiles(t *testing.T) {
	t.Parallel()
	var names []string
	err := fs.WalkDir(guest.Files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if path.Ext(name) != ".py" {
			t.Errorf("got %s among the files, want Python only", name)
		}
	}
	starters := []string{guest.Main, guest.Template, "first.py"}
	for _, name := range starters {
		if _, err := fs.Stat(guest.Files, name); err != nil {
			t.Errorf("got %v, want %s", err, name)
		}
	}
	var onDisk []string
	for _, pattern := range []string{"airlock_guest/*.py", "airlock_guest/*/*.py"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		onDisk = append(onDisk, found...)
	}
	if got, want := len(names), len(onDisk)+len(starters); got != want {
		t.Errorf("got %d files, want %d: %v", got, want, names)
	}
}

func TestInstall(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "guest")
	if err := guest.Install(dir); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, guest.Main))
	if err != nil {
		t.Fatal(err)
	}
	want, err := fs.ReadFile(guest.Files, guest.Main)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", guest.Main, diff)
	}
	if err := guest.Install(dir); err == nil {
		t.Error("got no error for a second Install, want one")
	}
}

// TestCompile takes the sources away: a guest that still starts runs the
// bytecode.
func TestCompile(t *testing.T) {
	t.Parallel()
	dir, interpreter := filepath.Join(t.TempDir(), "guest"), python(t)
	if err := guest.Install(dir); err != nil {
		t.Fatal(err)
	}
	if err := guest.Compile(t.Context(), dir, interpreter); err != nil {
		t.Fatal(err)
	}
	const poison = "raise SystemExit('read from source')\n"
	modules, err := filepath.Glob(filepath.Join(dir, "airlock_guest", "*.py"))
	if err != nil || len(modules) == 0 {
		t.Fatalf("got modules %v and error %v, want some", modules, err)
	}
	for _, module := range modules {
		if err := os.WriteFile(module, []byte(poison), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// Without a channel the guest ends in its own code, with a traceback.
	cmd := exec.CommandContext(t.Context(), interpreter, "-I", "-S", "-B", filepath.Join(dir, guest.Main))
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "Bad file descriptor") {
		t.Errorf("got %v, want a complaint about the missing channel:\n%s", err, out)
	}
}

func TestCompileFails(t *testing.T) {
	t.Parallel()
	if err := guest.Compile(t.Context(), t.TempDir(), filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("got no error for an interpreter that is not there, want one")
	}
}
