package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Posture is what a database lets its clients see of how it is kept.
type Posture struct {
	// Listens are the addresses that the server listens on, as it is
	// configured.
	Listens string
	// TLS: this connection was encrypted.
	TLS bool
	// Open: the user was let in without a password.
	Open bool
	// Superuser: the user is one.
	Superuser bool
}

// lookTime bounds a look.
const lookTime = 10 * time.Second

// Look connects, once as told and once without a password, and changes
// nothing.
func Look(ctx context.Context, databaseURL string) (Posture, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	var p Posture
	config, err := pgx.ParseConfig(databaseURL)
	if err != nil {
		// pgx redacts the password, but quotes the rest of the URL.
		return p, fmt.Errorf("postgres URL: %w", err)
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return p, translate("connect", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	err = conn.QueryRow(ctx, `
        SELECT current_setting('listen_addresses'),
               coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false),
               coalesce((SELECT rolsuper FROM pg_roles WHERE rolname = current_user), false)`).
		Scan(&p.Listens, &p.TLS, &p.Superuser)
	if err != nil {
		return p, translate("look at the server", err)
	}
	config.Password = ""
	if again, err := pgx.ConnectConfig(ctx, config); err == nil {
		p.Open = true
		_ = again.Close(ctx)
	}
	return p, nil
}
