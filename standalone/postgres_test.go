package standalone_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/rs/zerolog"

	"airlock/standalone"
)

// pgDir is a data directory that the server's user can reach.
func pgDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "airlock-standalone-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "deeper", "postgres")
}

func startPG(t *testing.T, cfg standalone.PostgresConfig) *standalone.Postgres {
	t.Helper()
	cfg.Log = zerolog.New(zerolog.NewTestWriter(t))
	pg, err := standalone.StartPostgres(t.Context(), cfg)
	if err != nil {
		if slices.Contains(strings.Split(os.Getenv("AIRLOCK_REQUIRE"), ","), "postgres") {
			t.Fatalf("postgres is required: %v", err)
		}
		t.Skipf("postgres is not available: %v", err)
	}
	t.Cleanup(func() {
		if err := pg.Close(); err != nil {
			t.Errorf("close postgres: %v", err)
		}
	})
	return pg
}

// keepSomething makes table kept.
func keepSomething(t *testing.T, url string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), `CREATE TABLE kept AS SELECT 'here'::text AS a`); err != nil {
		t.Fatalf("make table: %v", err)
	}
}

// pgText asks for one value.
func pgText(t *testing.T, url, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	defer conn.Close(context.Background())
	var text string
	if err := conn.QueryRow(t.Context(), sql).Scan(&text); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return text
}

func TestPostgresKeepsItsData(t *testing.T) {
	t.Parallel()
	dir := pgDir(t)
	pg := startPG(t, standalone.PostgresConfig{Dir: dir})
	keepSomething(t, pg.URL())
	if err := pg.Restart(t.Context()); err != nil {
		t.Fatalf("restart: %v", err)
	}
	before := pg.URL()
	if got := pgText(t, before, `SELECT a FROM kept`); got != "here" {
		t.Errorf("after a restart: got %q, want here", got)
	}
	for range 2 {
		if err := pg.Close(); err != nil {
			t.Fatalf("close: %v", err)
		}
	}
	if conn, err := net.Dial("tcp", pgHost(t, before)); err == nil {
		conn.Close()
		t.Error("the server still listens after Close")
	}
	again := startPG(t, standalone.PostgresConfig{Dir: dir})
	if got := pgText(t, again.URL(), `SELECT a FROM kept`); got != "here" {
		t.Errorf("after a new start: got %q, want here", got)
	}
}

func pgHost(t *testing.T, raw string) string {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

func TestPostgresIsPrivateAndDurable(t *testing.T) {
	t.Parallel()
	dir := pgDir(t)
	pg := startPG(t, standalone.PostgresConfig{Dir: dir, Database: "other"})
	for setting, want := range map[string]string{
		"listen_addresses": "127.0.0.1", "fsync": "on", "synchronous_commit": "on", "full_page_writes": "on",
		"log_error_verbosity": "terse", "password_encryption": "scram-sha-256",
	} {
		if got := pgText(t, pg.URL(), "SELECT current_setting('"+setting+"')"); got != want {
			t.Errorf("%s: got %s, want %s", setting, got, want)
		}
	}
	if got := pgText(t, pg.URL(), "SELECT current_database()::text"); got != "other" {
		t.Errorf("database: got %s, want other", got)
	}
	if got := pgText(t, pg.URL(), "SELECT count(*)::text FROM pg_hba_file_rules WHERE auth_method <> 'scram-sha-256'"); got != "0" {
		t.Errorf("rules without a password: got %s, want 0", got)
	}
	for _, way := range []string{pg.URL(), pg.LocalURL()} {
		u, err := url.Parse(way)
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.UserPassword(u.User.Username(), "guess")
		if _, err := pgx.Connect(t.Context(), u.String()); err == nil {
			t.Errorf("connect to %s with a guessed password: got no error", u.Redacted())
		}
	}
	for _, path := range []string{dir, filepath.Join(dir, "password"), filepath.Join(dir, "data"), filepath.Join(dir, "socket"), pg.LogFile()} {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: got mode %v, %v, want nothing for others", path, info.Mode(), err)
		}
	}
	log, err := os.ReadFile(pg.LogFile())
	if err != nil || len(log) == 0 {
		t.Errorf("log: got %d bytes, %v, want some", len(log), err)
	}
}

func TestPostgresDirectoryHasOneOwner(t *testing.T) {
	t.Parallel()
	dir := pgDir(t)
	pg := startPG(t, standalone.PostgresConfig{Dir: dir})
	_, err := standalone.StartPostgres(t.Context(), standalone.PostgresConfig{Dir: dir, Log: zerolog.Nop()})
	if !errors.Is(err, standalone.ErrDataInUse) {
		t.Errorf("second start: got %v, want %v", err, standalone.ErrDataInUse)
	}
	pgText(t, pg.URL(), `SELECT 'still here'`)
}

func TestPostgresOnTakenPort(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	startPG(t, standalone.PostgresConfig{Dir: pgDir(t)}) // skips where there is no postgres
	_, err = standalone.StartPostgres(t.Context(), standalone.PostgresConfig{
		Dir: pgDir(t), Port: listener.Addr().(*net.TCPAddr).Port, Log: zerolog.Nop(),
	})
	if err == nil || !strings.Contains(err.Error(), "could not bind") {
		t.Errorf("start on a taken port: got %v, want the server's reason", err)
	}
}

// TestMain also plays the process that dies with its Postgres running.
func TestMain(m *testing.M) {
	if dir := os.Getenv("AIRLOCK_TEST_PARENT"); dir != "" {
		pg, err := standalone.StartPostgres(context.Background(), standalone.PostgresConfig{Dir: dir, Log: zerolog.Nop()})
		fmt.Println(err)
		if err == nil {
			fmt.Println(pg.URL())
			select {}
		}
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func TestPostgresAfterItsParentWasKilled(t *testing.T) {
	t.Parallel()
	dir := pgDir(t)
	startPG(t, standalone.PostgresConfig{Dir: dir}).Close() // skips where there is no postgres
	parent := exec.Command(os.Args[0], "-test.run=^$")
	parent.Env = append(os.Environ(), "AIRLOCK_TEST_PARENT="+dir)
	parent.Stderr = os.Stderr
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Scan()
	if lines.Text() != "<nil>" {
		t.Fatalf("start in the child: %s", lines.Text())
	}
	lines.Scan()
	left := lines.Text()
	keepSomething(t, left)
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	parent.Wait()
	pg := startPG(t, standalone.PostgresConfig{Dir: dir})
	if got := pgText(t, pg.URL(), `SELECT a FROM kept`); got != "here" {
		t.Errorf("after the parent's death: got %q, want here", got)
	}
	deadline := time.Now().Add(time.Minute)
	for {
		conn, err := net.Dial("tcp", pgHost(t, left))
		if err != nil {
			return
		}
		conn.Close()
		if time.Now().After(deadline) {
			t.Fatal("the killed process's server still listens")
		}
		time.Sleep(10 * time.Millisecond)
	}
}
