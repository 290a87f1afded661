package standalone

import (
	"archive/zip"
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rs/zerolog"
)

// repository serves one archive in the form of the embedded-postgres
// binaries, made from the installed programs.
func repository(t *testing.T) *httptest.Server {
	t.Helper()
	for _, dir := range installations() {
		if _, err := programsIn(dir); err != nil {
			continue
		}
		archive := filepath.Join(t.TempDir(), "postgres.txz")
		out, err := exec.Command("tar", "-cJf", archive, "-C", filepath.Dir(dir), "bin/postgres", "bin/initdb", "bin/pg_ctl").CombinedOutput()
		if err != nil {
			t.Skipf("cannot make an archive: %v: %s", err, out)
		}
		return serveJar(t, archive)
	}
	t.Skip("no postgres is installed to make an archive from")
	return nil
}

func serveJar(t *testing.T, archive string) *httptest.Server {
	t.Helper()
	content, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	var jar bytes.Buffer
	writer := zip.NewWriter(&jar)
	entry, err := writer.Create("postgres.txz")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := entry.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, ".jar") {
			http.NotFound(w, r)
			return
		}
		w.Write(jar.Bytes())
	}))
	t.Cleanup(server.Close)
	return server
}

func TestProgramsAreFetchedWhereNoneAreInstalled(t *testing.T) {
	t.Parallel()
	server := repository(t)
	dir := t.TempDir()
	cfg := PostgresConfig{Dir: dir, Repository: server.URL, Log: zerolog.Nop()}
	data := filepath.Join(dir, "data")
	programs, err := findPrograms(t.Context(), data, nil, cfg)
	if err != nil {
		t.Fatalf("find programs: %v", err)
	}
	if got, want := filepath.Dir(programs.postgres), filepath.Join(dir, "programs", "bin"); got != want {
		t.Errorf("programs: got %s, want %s", got, want)
	}
	if programs.version(t.Context()) == "" {
		t.Error("version: got none")
	}
	server.Close()
	if _, err := findPrograms(t.Context(), data, nil, cfg); err != nil {
		t.Errorf("find programs again: got %v, want those fetched before", err)
	}
}

func TestNoProgramsIsExplained(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	dir := t.TempDir()
	_, err := findPrograms(t.Context(), filepath.Join(dir, "data"), nil, PostgresConfig{Dir: dir, Repository: server.URL, Log: zerolog.Nop()})
	if err == nil || !strings.Contains(err.Error(), "install postgresql") {
		t.Errorf("got %v, want an error that says what to install", err)
	}
}

func TestClusterOfAnotherVersionIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(data, "PG_VERSION"), []byte("9\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := findPrograms(t.Context(), data, installations(), PostgresConfig{Dir: dir, Log: zerolog.Nop()})
	if err == nil || !strings.Contains(err.Error(), "postgres 9") {
		t.Errorf("got %v, want an error that names the version", err)
	}
}

// TestLeftoverServerIsStopped starts a server that no parent's death ends, as
// a killed process leaves it where the system has no signal for that.
func TestLeftoverServerIsStopped(t *testing.T) {
	t.Parallel()
	top, err := os.MkdirTemp("", "airlock-standalone-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(top) })
	if err := os.Chmod(top, 0o711); err != nil {
		t.Fatal(err)
	}
	cfg := PostgresConfig{Dir: filepath.Join(top, "pg"), Log: zerolog.Nop()}
	first, err := StartPostgres(t.Context(), cfg)
	if err != nil {
		t.Skipf("postgres is not available: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	options := "-c listen_addresses=127.0.0.1 -c unix_socket_directories=" + first.socketDir() + " -p " + strconv.Itoa(first.port)
	leave := exec.Command(first.programs.pgctl, "start", "-D", first.dataDir(), "-w", "-l", filepath.Join(first.dataDir(), "log"), "-o", options)
	leave.Env, leave.Dir = first.programs.env(), first.dataDir()
	first.account.run(leave)
	if err := leave.Run(); err != nil {
		t.Fatalf("leave a server running: %v", err)
	}
	left, err := leftoverPID(filepath.Join(first.dataDir(), "postmaster.pid"))
	if err != nil || left == 0 || !servesDir(left, first.dataDir()) {
		t.Fatalf("leftover: got pid %d, %v, want one that serves %s", left, err, first.dataDir())
	}
	second, err := StartPostgres(t.Context(), cfg)
	if err != nil {
		t.Fatalf("start over a leftover server: %v", err)
	}
	defer second.Close()
	if servesDir(left, first.dataDir()) && left != second.server.pid() {
		t.Errorf("process %d still serves the directory", left)
	}
}
