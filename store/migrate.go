package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	"github.com/rs/zerolog"

	"airlock/migrations"
)

// migrationLock is the advisory lock under which schemas change.
const migrationLock = 4801_0001

// Migrate brings the database to this program's schema, under an advisory
// lock, so that any number of processes may call it at once. It connects as
// Open does. A database that a newer program has migrated is left alone:
// ErrNewerSchema.
func Migrate(ctx context.Context, url string, log zerolog.Logger) error {
	parsed, err := pgxpool.ParseConfig(url) // as Open does: a URL may size the pool
	if err != nil {
		return fmt.Errorf("postgres URL: %w", err)
	}
	config := parsed.ConnConfig
	db := stdlib.OpenDB(*config)
	defer db.Close()
	server := fmt.Sprintf("%s:%d", config.Host, config.Port)
	if err := untilReachable(ctx, log, server, db.PingContext); err != nil {
		return err
	}
	if err := refuseNewer(ctx, db); err != nil {
		return err
	}
	return migrateUp(ctx, db, log)
}

func migrateUp(ctx context.Context, db *sql.DB, log zerolog.Logger) error {
	// Tried every second, because goose does not wait in the server.
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockID(migrationLock), lock.WithLockTimeout(1, 300))
	if err != nil {
		return fmt.Errorf("make migration lock: %w", err)
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, migrations.FS,
		goose.WithSessionLocker(locker), goose.WithLogger(goose.NopLogger()), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	done, err := provider.Up(ctx)
	for _, result := range done {
		log.Info().Int64("version", result.Source.Version).Dur("took", result.Duration).Msg("schema migrated")
	}
	return translate("migrate", err)
}

// versioner is what both database/sql and pgx offer under different names.
type versioner func(ctx context.Context, sql string, into any) error

func refuseNewer(ctx context.Context, db *sql.DB) error {
	have, want, err := versions(ctx, func(ctx context.Context, query string, into any) error {
		return db.QueryRowContext(ctx, query).Scan(into)
	})
	if err == nil && have > want {
		err = fmt.Errorf("%w: it has version %d, this program knows up to %d; use a newer program", ErrNewerSchema, have, want)
	}
	return err
}

func (s *Store) checkSchema(ctx context.Context) error {
	have, want, err := versions(ctx, func(ctx context.Context, query string, into any) error {
		return s.pool.QueryRow(ctx, query).Scan(into)
	})
	switch {
	case err != nil:
		return err
	case have > want:
		return fmt.Errorf("%w: it has version %d, this program knows up to %d; use a newer program", ErrNewerSchema, have, want)
	case have < want:
		return fmt.Errorf("%w: it has version %d, this program needs %d", ErrOlderSchema, have, want)
	}
	return nil
}

// versions returns the database's version, 0 if it has none, and the newest
// that this program brings.
func versions(ctx context.Context, query versioner) (have, want int64, err error) {
	if want, err = newestMigration(migrations.FS); err != nil {
		return 0, 0, err
	}
	var table bool
	if err := query(ctx, `SELECT to_regclass('goose_db_version') IS NOT NULL`, &table); err != nil {
		return 0, 0, translate("read schema version", err)
	}
	if !table {
		return 0, want, nil
	}
	err = query(ctx, `SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied`, &have)
	return have, want, translate("read schema version", err)
}

func newestMigration(files fs.FS) (int64, error) {
	names, err := fs.Glob(files, "*.sql")
	if err != nil || len(names) == 0 {
		return 0, errors.Join(errors.New("no migrations"), err)
	}
	newest := int64(0)
	for _, name := range names {
		number, _, _ := strings.Cut(name, "_")
		version, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("migration %q has no number", name)
		}
		newest = max(newest, version)
	}
	return newest, nil
}
