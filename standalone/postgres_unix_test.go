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
