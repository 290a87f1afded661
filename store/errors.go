package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"airlock/job"
)

var (
	// ErrUnreachable is job.ErrUnreachable: Postgres could not be asked or did not
	// answer. Whether the write happened is unknown; it may be repeated.
	ErrUnreachable = fmt.Errorf("postgres: %w", job.ErrUnreachable)
	// ErrNotFound means that the tenant has no such job or batch, or that
	// the job has no result yet.
	ErrNotFound = errors.New("not found")
	// ErrNewerSchema means that a newer program has migrated the database.
	ErrNewerSchema = errors.New("the database's schema is newer than this program")
	// ErrOlderSchema means that the database is not migrated to what this
	// program needs; Migrate mends it.
	ErrOlderSchema = errors.New("the database's schema is older than this program")
	// ErrOpenCall means that the end of one of the attempt's calls is not
	// recorded: a crash of the server took it back.
	ErrOpenCall = errors.New("the end of a tool call is not recorded")
	// ErrNotDead means that a requeue was asked for a job that is not dead.
	ErrNotDead = errors.New("the job is not dead")
	// ErrClosed is returned by writes after Close.
	ErrClosed = errors.New("the store is closed")
)

// translate turns a driver's error into one of this package's where a caller
// could branch on it, and names the act in any case.
func translate(act string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pgx.ErrNoRows):
		return fmt.Errorf("%s: %w", act, ErrNotFound)
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%s: %w", act, err)
	case isUnreachable(err):
		return fmt.Errorf("%s: %w: %w", act, ErrUnreachable, err)
	}
	return fmt.Errorf("%s: %w", act, err)
}

func isUnreachable(err error) bool {
	if server, ok := errors.AsType[*pgconn.PgError](err); ok {
		return strings.HasPrefix(server.Code, "08") || // connection exceptions
			strings.HasPrefix(server.Code, "57P") || // shut down, crashed, starting up
			strings.HasPrefix(server.Code, "53") || // disk full, out of memory, too many connections
			server.Code == "25006" // read only: a standby, or being failed over
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, context.DeadlineExceeded) || pgconn.SafeToRetry(err) ||
		strings.Contains(err.Error(), "conn closed")
}

// isPermanent reports whether trying to connect again is useless: the server
// is there and refuses us, or has no such database.
func isPermanent(err error) bool {
	server, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (strings.HasPrefix(server.Code, "28") || server.Code == "3D000")
}

// isTransient reports whether the same transaction may succeed if run again:
// it lost against another one.
func isTransient(err error) bool {
	server, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (server.Code == "40001" || server.Code == "40P01")
}

// isBadData reports whether the server refused a value, which the caller may
// offer again in a plainer form.
func isBadData(err error) bool {
	server, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (strings.HasPrefix(server.Code, "22") || strings.HasPrefix(server.Code, "54"))
}
