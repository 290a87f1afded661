package integration_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"airlock/job"
)

// TestFilesComeBack is the whole way of a file: from a sandbox through the
// broker and Postgres into a directory of the submitter's.
func TestFilesComeBack(t *testing.T) {
	t.Parallel()
	env, dir := standaloneEnv(t), filepath.Join(t.TempDir(), "out")
	const code = `
import os
os.makedirs("out/deep")
open("out/big.bin", "wb").write(bytes(range(256)) * 20_000)
open("out/deep/a.txt", "w").write("é")
open("out/not.log", "w").write("no")
os.symlink("/etc/passwd", "out/link")
open("out/huge", "wb").truncate(20 << 20)
`
	r := runJob(t, code, "--collect", "out/**/*.txt", "--collect", "out/*.bin", "--collect", "out/link", "--collect", "out/huge", "--artifacts", dir)
	if r.Status != job.StatusOK {
		t.Fatalf("status: got %s (%+v), want ok", r.Status, r.Error)
	}
	var got []string
	for _, x := range r.Artifacts {
		got = append(got, strings.TrimSpace(x.Path+" "+x.Size.String()+" "+string(x.Reason)))
	}
	want := []string{"out/big.bin 5000KiB", "out/deep/a.txt 2B", "out/huge 20MiB too_large", "out/link 11B link"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("artifacts (-want +got):\n%s", diff)
	}
	if text := read(t, filepath.Join(dir, "out", "deep", "a.txt")); text != "é" {
		t.Errorf("got %q in a.txt, want é", text)
	}
	if big := read(t, filepath.Join(dir, "out", "big.bin")); len(big) != 5_120_000 || big[:256] != big[256:512] || big[255] != 255 {
		t.Errorf("got %d bytes in big.bin, want what the guest wrote", len(big))
	}
	for _, name := range []string{"not.log", "link", "huge"} {
		if _, err := os.Lstat(filepath.Join(dir, "out", name)); err == nil {
			t.Errorf("%s was written, want it left out", name)
		}
	}
	db, err := pgx.Connect(t.Context(), env["AIRLOCK_POSTGRES"])
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(t.Context())
	var files, bytes int
	if err := db.QueryRow(t.Context(), `SELECT count(*), sum(size) FROM job_artifacts WHERE job = $1`, r.Job.String()).Scan(&files, &bytes); err != nil {
		t.Fatal(err)
	}
	if files != 2 || bytes != 5_120_002 {
		t.Errorf("got %d files of %d bytes in Postgres, want 2 of 5,120,002", files, bytes)
	}
}

// TestNoFilesOfAGuestThatWasEnded: what it was at is nobody's result.
func TestNoFilesOfAGuestThatWasEnded(t *testing.T) {
	t.Parallel()
	for code, status := range map[string]job.Status{
		"while True: pass":                    job.StatusTimeout,
		"import os; os._exit(0)":              job.StatusNoResult,
		"raise SystemExit(0)":                 job.StatusNoResult,
		"x = bytearray(300 << 20)":            job.StatusMemoryLimit,
		`import os; os.write(3, b"\xff" * 4)`: job.StatusPolicyViolation,
		`return "x" * 2_000_000`:              job.StatusResultLimit,
	} {
		r := runJob(t, "open('a', 'w').write('x')\n"+code, "--collect", "**", "--wall", "1s", "--memory", "64MiB")
		if r.Status != status || r.Artifacts != nil {
			t.Errorf("%s: got %s and files %v, want %s and none", code, r.Status, r.Artifacts, status)
		}
	}
	r := runJob(t, "open('a', 'w').write('x')\n1/0", "--collect", "**")
	if r.Status != job.StatusGuestError || len(r.Artifacts) != 1 {
		t.Errorf("an exception: got %s and files %v, want guest_error and one", r.Status, r.Artifacts)
	}
}
