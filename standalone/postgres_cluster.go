package standalone

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// ensureCluster runs initdb, once. The mark of a complete cluster is the
// password file, which is moved into place last.
func (p *Postgres) ensureCluster(ctx context.Context) error {
	passwordFile := filepath.Join(p.cfg.Dir, "password")
	stored, err := os.ReadFile(passwordFile)
	if err == nil {
		p.password = strings.TrimSpace(string(stored))
		return nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("read postgres password: %w", err)
	}
	fresh := passwordFile + ".new"
	if err := emptyIncomplete(p.dataDir(), fresh); err != nil {
		return err
	}
	secret := make([]byte, 24)
	rand.Read(secret) // never fails since Go 1.24
	p.password = hex.EncodeToString(secret)
	if err := os.WriteFile(fresh, []byte(p.password+"\n"), 0o600); err != nil {
		return fmt.Errorf("write postgres password: %w", err)
	}
	if err := p.account.own(fresh); err != nil {
		return err
	}
	if err := p.initdb(ctx, fresh); err != nil {
		return err
	}
	return os.Rename(fresh, passwordFile)
}

// emptyIncomplete clears what an interrupted initdb left, which the new
// password that it was to have gives away. Any other cluster without a
// password is not ours to clear.
func emptyIncomplete(dir, newPassword string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("read cluster: %w", err)
	}
	if _, err := os.Stat(newPassword); errors.Is(err, os.ErrNotExist) && len(entries) > 0 {
		return fmt.Errorf("%s is not empty, but the password file beside it is missing", dir)
	}
	for _, entry := range entries {
		if err := os.RemoveAll(filepath.Join(dir, entry.Name())); err != nil {
			return fmt.Errorf("clear incomplete cluster: %w", err)
		}
	}
	return nil
}

func (p *Postgres) initdb(ctx context.Context, passwordFile string) error {
	ctx, cancel := context.WithTimeout(ctx, pgStartTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.programs.initdb,
		"--pgdata", p.dataDir(), "--username", pgSuperuser, "--pwfile", passwordFile, "--auth", "scram-sha-256",
		"--encoding", "UTF8", "--locale", "C")
	cmd.Env = p.programs.env()
	cmd.Dir = p.cfg.Dir
	p.account.run(cmd)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, lastLines(string(out), 5))
	}
	return nil
}

// settings are given on the command line, so that an older cluster gets them
// too and nobody's edit of a file can open the server to the network.
func (p *Postgres) settings() []string {
	return []string{
		"listen_addresses=127.0.0.1", "port=" + strconv.Itoa(p.port),
		"unix_socket_directories=" + p.socket(), "unix_socket_permissions=0700",
		"password_encryption=scram-sha-256", "ssl=off", "max_connections=" + strconv.Itoa(cmp.Or(p.cfg.Connections, defaultConnections)),
		"fsync=on", "synchronous_commit=on", "full_page_writes=on",
		"shared_buffers=128MB", "max_wal_size=1GB", "checkpoint_timeout=15min", "jit=off", "timezone=UTC", "log_timezone=UTC",
		// A failing statement's row may hold what guests wrote; the log
		// must not.
		"logging_collector=off", "log_destination=stderr", "log_error_verbosity=terse", "log_min_error_statement=panic",
		"log_checkpoints=off", "log_line_prefix=%m [%p] ",
	}
}

func (p *Postgres) ensureDatabase(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, p.urlOf("postgres"))
	if err != nil {
		return fmt.Errorf("connect to postgres: %w", err)
	}
	defer conn.Close(ctx)
	var exists bool
	err = conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`, p.cfg.Database).Scan(&exists)
	if err == nil && !exists {
		_, err = conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{p.cfg.Database}.Sanitize())
	}
	if err != nil {
		return fmt.Errorf("make database %q: %w", p.cfg.Database, err)
	}
	return nil
}
