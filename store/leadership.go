package store

import (
	"context"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

// reconcilerLock is the advisory lock that makes one worker the reconciler.
const reconcilerLock = 4801_0002

// MaxCheck is how long a leadership lasts without a Check. The server ends it
// then: a leader that is frozen, or cut off, keeps its connection for hours.
const MaxCheck = 15 * time.Second

// Leadership is the right to run the reconciler. It lasts as long as its own
// connection to the database, and as long as Check is called; there is at most
// one at any time. It is not for concurrent use.
type Leadership struct {
	conn *pgx.Conn
}

// Lead returns the leadership, or nil while another process has it.
//
// Everything a reconciler does is safe without it, since all of it locks rows
// and checks states; leadership only keeps workers from doing it all at once.
func (s *Store) Lead(ctx context.Context) (*Leadership, error) {
	config := s.pool.Config().ConnConfig
	config.RuntimeParams["application_name"] = "airlock reconciler"
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, translate("connect to lead", err)
	}
	var leads bool
	// Servers before 14 have no such setting.
	_, err = conn.Exec(ctx, `SELECT set_config(name, $1, false) FROM pg_settings WHERE name = 'idle_session_timeout'`,
		strconv.FormatInt(MaxCheck.Milliseconds(), 10))
	if err == nil {
		err = conn.QueryRow(ctx, `SELECT pg_try_advisory_lock($1)`, int64(reconcilerLock)).Scan(&leads)
	}
	if err != nil || !leads {
		closeConn(conn)
		return nil, translate("take the reconciler's lock", err)
	}
	return &Leadership{conn: conn}, nil
}

// Check returns an error once the leadership is lost. It is then to be
// released, and may be asked for anew.
func (l *Leadership) Check(ctx context.Context) error {
	return translate("check leadership", l.conn.Ping(ctx))
}

// Release gives the leadership up. It may be called after it was lost.
func (l *Leadership) Release() { closeConn(l.conn) }

// closeConn says goodbye to the server, which frees the session's locks at
// once, and gives up on it soon.
func closeConn(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx) // the connection is gone either way
}
