//go:build unix

package standalone_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"airlock/standalone"
)

func TestPostgresInClosedDirectory(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root runs the server as another user")
	}
	startPG(t, standalone.PostgresConfig{Dir: pgDir(t)}) // skips where there is no postgres
	closed := filepath.Dir(pgDir(t))
	if err := os.MkdirAll(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := standalone.StartPostgres(t.Context(), standalone.PostgresConfig{Dir: filepath.Join(closed, "pg"), Log: zerolog.Nop()})
	if err == nil || !strings.Contains(err.Error(), closed) || !strings.Contains(err.Error(), "may not enter") {
		t.Errorf("got %v, want an error that names %s", err, closed)
	}
}

func TestPostgresLocalURL(t *testing.T) {
	t.Parallel()
	pg := startPG(t, standalone.PostgresConfig{Dir: pgDir(t), Database: "other"})
	for way, want := range map[string]string{pg.URL(): "network other", pg.LocalURL(): "socket other"} {
		got := pgText(t, way, `SELECT CASE WHEN inet_client_addr() IS NULL THEN 'socket ' ELSE 'network ' END || current_database()`)
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
