// Package storetest gives each test a database of its own.
//
// The server is the one that AIRLOCK_TEST_POSTGRES names, whose user must be
// allowed to make databases and roles, else a private one that the first test
// starts and that ends with the test binary. A database is a copy of a
// template that was migrated once, so that it costs milliseconds.
package storetest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/rs/zerolog"

	"airlock/migrations"
	"airlock/standalone"
	"airlock/store"
)

// EnvURL names the variable with the URL of a server to share.
const EnvURL = "AIRLOCK_TEST_POSTGRES"

const (
	// templateLock serialises test binaries that share a server.
	templateLock = 4801_0003
	setupTimeout = 5 * time.Minute
	// connections let the workers of many tests share a server.
	connections = 500
)

// Open returns a store on a fresh, migrated database. Both are gone after the
// test. Without Postgres the test is skipped, or fails where AIRLOCK_REQUIRE
// names postgres.
func Open(t testing.TB) *store.Store {
	t.Helper()
	return OpenURL(t, URL(t))
}

// OpenURL returns a store on the database of url, closed after the test.
func OpenURL(t testing.TB, url string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), store.Config{URL: url, Log: Log(t)})
	if err != nil {
		t.Fatalf("open store: %v", err)
	}
	t.Cleanup(s.Close)
	return s
}

// URL returns the URL of a fresh, migrated database.
func URL(t testing.TB) string {
	t.Helper()
	return create(t, template(t))
}

// EmptyURL returns the URL of a fresh database without a schema.
func EmptyURL(t testing.TB) string {
	t.Helper()
	return create(t, "template0")
}

// Server starts a server for this test alone, for tests that stop it. Its
// database is not migrated.
func Server(t testing.TB) *standalone.Postgres {
	t.Helper()
	dir, err := os.MkdirTemp("", "airlock-storetest-")
	if err != nil {
		t.Fatalf("make data directory: %v", err)
	}
	pg, err := startIn(t.Context(), dir)
	if err != nil {
		unavailable(t, err)
	}
	t.Cleanup(func() {
		if err := errors.Join(pg.Close(), os.RemoveAll(dir)); err != nil {
			t.Errorf("stop postgres: %v", err)
		}
	})
	return pg
}

// Log writes to the test's own log.
func Log(t testing.TB) zerolog.Logger {
	return zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel)
}

func startIn(ctx context.Context, dir string) (*standalone.Postgres, error) {
	// The server's user must pass; MkdirTemp lets nobody.
	if err := os.Chmod(dir, 0o711); err != nil {
		return nil, err
	}
	return standalone.StartPostgres(ctx, standalone.PostgresConfig{Dir: dir + "/postgres", Connections: connections})
}

// server is the one that a test binary's tests share.
type server struct {
	url string
	// remover must not be collected: its end starts the removal.
	remover io.Closer
}

var shared = sync.OnceValues(func() (server, error) {
	if url := os.Getenv(EnvURL); url != "" {
		return server{url: url}, nil
	}
	dir, err := os.MkdirTemp("", "airlock-storetest-")
	if err != nil {
		return server{}, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	pg, err := startIn(ctx, dir)
	if err != nil {
		return server{}, errors.Join(err, os.RemoveAll(dir))
	}
	// Nothing tells us that the last test has run, so that somebody else has
	// to clear up after this process.
	remover, err := removeAfterExit(dir)
	return server{url: pg.URL(), remover: remover}, err
})

// migrated is the template's name, made on the shared server.
var migrated = sync.OnceValues(func() (string, error) {
	on, err := shared()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	name := templateName()
	return name, locked(ctx, on.url, func(conn *pgx.Conn) error { return makeTemplate(ctx, conn, on.url, name) })
})

// templateName changes with the migrations, so that binaries of different
// states of the tree can share a server.
func templateName() string {
	sum := sha256.New()
	names, _ := fs.Glob(migrations.FS, "*.sql")
	slices.Sort(names)
	for _, name := range names {
		content, _ := fs.ReadFile(migrations.FS, name)
		fmt.Fprintf(sum, "%s %d\n%s", name, len(content), content)
	}
	return fmt.Sprintf("airlock_template_%x", sum.Sum(nil)[:6])
}

// makeTemplate migrates under another name first, so that a template by its
// name is complete.
func makeTemplate(ctx context.Context, conn *pgx.Conn, url, name string) error {
	var exists bool
	if err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`, name).Scan(&exists); err != nil || exists {
		return err
	}
	for _, sql := range []string{"DROP DATABASE IF EXISTS " + name + "_new WITH (FORCE)", "CREATE DATABASE " + name + "_new"} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	if err := store.Migrate(ctx, withDatabase(url, name+"_new"), zerolog.Nop()); err != nil {
		return err
	}
	_, err := conn.Exec(ctx, "ALTER DATABASE "+name+"_new RENAME TO "+name)
	return err
}

func template(t testing.TB) string {
	t.Helper()
	if _, err := shared(); err != nil {
		unavailable(t, err)
	}
	name, err := migrated()
	if err != nil {
		t.Fatalf("migrate the template database: %v", err)
	}
	return name
}

var databases atomic.Int64

// create makes a database from a template and drops it after the test.
func create(t testing.TB, from string) string {
	t.Helper()
	on, err := shared()
	if err != nil {
		unavailable(t, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	name := fmt.Sprintf("airlock_test_%d_%d", os.Getpid(), databases.Add(1))
	err = locked(ctx, on.url, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s", name, from))
		return err
	})
	if err != nil {
		t.Fatalf("create database: %v", err)
	}
	t.Cleanup(func() { drop(t, on.url, name) })
	return withDatabase(on.url, name)
}

func drop(t testing.TB, url, name string) {
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Errorf("drop database: %v", err)
		return
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
		t.Errorf("drop database: %v", err)
	}
}

// locked runs act on a connection that holds the template's lock: a database
// cannot be copied while another session uses it.
func locked(ctx context.Context, url string, act func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, `SELECT pg_advisory_lock($1)`, int64(templateLock)); err != nil {
		return err
	}
	for {
		err := act(conn)
		// 55006: the template is in use, which only maintenance can be.
		if refused, ok := errors.AsType[*pgconn.PgError](err); !ok || refused.Code != "55006" || ctx.Err() != nil {
			return err
		}
	}
}

func withDatabase(server, name string) string {
	u, err := url.Parse(server)
	if err != nil {
		return server // which then fails to connect, and says why
	}
	u.Path = "/" + name
	return u.String()
}

// unavailable skips the test, unless Postgres is required here.
func unavailable(t testing.TB, err error) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv("AIRLOCK_REQUIRE"), ","), "postgres") {
		t.Fatalf("postgres is required: %v", err)
	}
	t.Skipf("postgres is not available: %v", err)
}
