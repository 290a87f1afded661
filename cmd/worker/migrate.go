package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"airlock/cmd/internal/secret"
	"airlock/store"
)

// migrateCommand brings the database up to date and leaves, for deployments
// whose workers connect as a role that may not.
type migrateCommand struct {
	Postgres       string        `help:"URL of the Postgres database, as a role that may change its schema, or file: and the path of a file that holds it." placeholder:"URL"`
	ConnectTimeout time.Duration `help:"How long Postgres is tried, and the change may take." default:"60s"`
	JSON           bool          `name:"json" help:"Print JSON."`
}

func (c *migrateCommand) validate() (err error) {
	if c.Postgres, err = secret.Read(c.Postgres); err != nil {
		return fmt.Errorf("--postgres: %w", err)
	}
	if c.Postgres == "" {
		return errors.New("give --postgres, the database to bring up to date")
	}
	return nil
}

func (c *migrateCommand) run(ctx context.Context, stdout, stderr io.Writer) int {
	ctx, stop := untilSignalled(ctx)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, c.ConnectTimeout)
	defer cancel()
	if err := store.Migrate(ctx, c.Postgres, commandLog(stderr)); err != nil {
		return told(fmt.Errorf("bring the database to this schema (is --postgres right, and the server up?): %w", err), "migrate", stderr)
	}
	if c.JSON {
		return printJSON(map[string]bool{"current": true}, "worker migrate", stdout, stderr)
	}
	fmt.Fprintln(stdout, "the schema is current")
	return exitOK
}
