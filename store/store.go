package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rs/zerolog"

	"airlock/job"
)

// Config says which database to use.
type Config struct {
	// URL is a Postgres connection URL.
	URL string
	Log zerolog.Logger
	// MaxConns bounds the pool; zero means 12, which is one for each kind of
	// grouped write and some for queries. Leadership has its own beside it.
	MaxConns int
}

const (
	defaultMaxConns = 12
	// statementTimeout bounds a write that nobody may call off. It is below
	// job.LeaseMargin, so that a worker learns of a hanging database before
	// its leases end.
	statementTimeout = 8 * time.Second
	// connectTimeout bounds one try to connect.
	connectTimeout = 5 * time.Second
	// retryConnect is the pause between tries while opening.
	retryConnect = 500 * time.Millisecond
)

// Store is the database. Its methods may be called from many goroutines.
type Store struct {
	pool *pgxpool.Pool
	log  zerolog.Logger

	claims    *committer[*claimItem]
	finishes  *committer[*finishItem]
	starts    *committer[*callItem]
	ends      *committer[*callItem]
	announces *committer[job.ID]
}

// Open connects and tries again until ctx ends, telling the log; its error
// then wraps ErrUnreachable. A server that refuses the credentials or has no
// such database ends it at once. The schema must be this program's: ErrNewerSchema
// or ErrOlderSchema otherwise.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	pool, err := connect(ctx, cfg)
	if err != nil {
		return nil, err
	}
	s := &Store{pool: pool, log: cfg.Log}
	if err := s.checkSchema(ctx); err != nil {
		pool.Close()
		return nil, err
	}
	// Before the first job of a new month arrives; the reconciler repeats it.
	if err := s.EnsurePartitions(ctx, time.Now()); err != nil {
		s.log.Warn().Err(err).Msg("partitions of this month not checked")
	}
	s.claims = newCommitter(s, "claim", s.commitClaims, (*claimItem).size)
	s.finishes = newCommitter(s, "finish", s.commitFinishes, (*finishItem).size)
	s.starts = newCommitter(s, "record call start", s.commitStarts, (*callItem).size)
	s.ends = newCommitter(s, "record call end", s.commitEnds, (*callItem).size)
	s.announces = newCommitter(s, "mark announced", s.commitAnnounced, func(job.ID) int { return 16 })
	return s, nil
}

// Close waits for the writes that were taken up and closes all connections.
func (s *Store) Close() {
	s.claims.close()
	s.finishes.close()
	s.starts.close()
	s.ends.close()
	s.announces.close()
	s.pool.Close()
}

// Ping reports whether the database answers.
func (s *Store) Ping(ctx context.Context) error {
	return translate("ping", s.pool.Ping(ctx))
}

func connect(ctx context.Context, cfg Config) (*pgxpool.Pool, error) {
	poolConfig, err := poolConfig(cfg)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, poolConfig)
	if err != nil {
		return nil, translate("open pool", err)
	}
	server := fmt.Sprintf("%s:%d", poolConfig.ConnConfig.Host, poolConfig.ConnConfig.Port)
	if err := untilReachable(ctx, cfg.Log, server, pool.Ping); err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}

// poolConfig fills what a URL leaves open.
func poolConfig(cfg Config) (*pgxpool.Config, error) {
	parsed, err := pgxpool.ParseConfig(cfg.URL)
	if err != nil {
		// pgx redacts the password, but quotes the rest of the URL.
		return nil, fmt.Errorf("postgres URL: %w", err)
	}
	parsed.MaxConns = int32(cfg.MaxConns)
	if parsed.MaxConns <= 0 {
		parsed.MaxConns = defaultMaxConns
	}
	if parsed.ConnConfig.ConnectTimeout == 0 {
		parsed.ConnConfig.ConnectTimeout = connectTimeout
	}
	setDefault(parsed.ConnConfig.RuntimeParams, "application_name", "airlock")
	setDefault(parsed.ConnConfig.RuntimeParams, "timezone", "UTC")
	// Every statement of this package looks rows up by an index. Planning
	// over partitions takes longer than running, so plans are kept; and one
	// that was made while the tables were empty must not read them whole
	// once they are full.
	setDefault(parsed.ConnConfig.RuntimeParams, "plan_cache_mode", "force_generic_plan")
	for _, method := range []string{"enable_seqscan", "enable_hashjoin", "enable_mergejoin"} {
		setDefault(parsed.ConnConfig.RuntimeParams, method, "off")
	}
	// What looks rows up has no work for a second process, and starting one
	// takes longer than the rest.
	setDefault(parsed.ConnConfig.RuntimeParams, "max_parallel_workers_per_gather", "0")
	// A lost peer must not hold row locks for longer than others can wait.
	setDefault(parsed.ConnConfig.RuntimeParams, "idle_in_transaction_session_timeout", "60s")
	return parsed, nil
}

func setDefault(params map[string]string, name, value string) {
	if _, set := params[name]; !set {
		params[name] = value
	}
}

// untilReachable pings until it succeeds, ctx ends, or trying is useless.
func untilReachable(ctx context.Context, log zerolog.Logger, server string, ping func(context.Context) error) error {
	for try := 1; ; try++ {
		err := ping(ctx)
		if err == nil {
			return nil
		}
		if isPermanent(err) {
			return fmt.Errorf("connect to postgres at %s: %w", server, err)
		}
		if try == 1 || try%20 == 0 {
			log.Warn().Str("server", server).Int("try", try).Err(err).Msg("postgres is not reachable, trying again")
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("connect to postgres at %s: %w: %w", server, ErrUnreachable, err)
		case <-time.After(retryConnect):
		}
	}
}

// written bounds a write that must not end with its caller's context.
func written(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), statementTimeout)
}

// noteLoss throws the idle connections away after one of them was found dead:
// after a restart of the server they all are, and each would fail one caller.
func (s *Store) noteLoss(err error) {
	// A deadline closes its own connection and says nothing of the others.
	if isUnreachable(err) && !errors.Is(err, context.DeadlineExceeded) {
		s.pool.Reset()
	}
}

// exec runs one statement that is safe to repeat, once more if it never
// reached the server.
func (s *Store) exec(ctx context.Context, act, sql string, args ...any) (pgconn.CommandTag, error) {
	tag, err := s.pool.Exec(ctx, sql, args...)
	if err != nil && pgconn.SafeToRetry(err) && ctx.Err() == nil {
		s.noteLoss(err)
		tag, err = s.pool.Exec(ctx, sql, args...)
	}
	if err != nil {
		s.noteLoss(err)
	}
	return tag, translate(act, err)
}

// collect runs a query and reads all its rows.
func collect[T any](ctx context.Context, s *Store, act string, read pgx.RowToFunc[T], sql string, args ...any) ([]T, error) {
	for retried := false; ; retried = true {
		rows, err := s.pool.Query(ctx, sql, args...)
		if err != nil {
			return nil, translate(act, err)
		}
		all, err := pgx.CollectRows(rows, read)
		if err == nil {
			return all, nil
		}
		s.noteLoss(err)
		if retried || ctx.Err() != nil || !(pgconn.SafeToRetry(err) || isTransient(err)) {
			return nil, translate(act, err)
		}
	}
}

// one runs a query for a single row; ErrNotFound if there is none.
func one[T any](ctx context.Context, s *Store, act string, read pgx.RowToFunc[T], sql string, args ...any) (T, error) {
	all, err := collect(ctx, s, act, read, sql, args...)
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("%s: %w", act, ErrNotFound)
	}
	if err != nil {
		var none T
		return none, err
	}
	return all[0], nil
}
