package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/alecthomas/kong"
	"github.com/rs/zerolog"

	"airlock/cmd/internal/secret"
	"airlock/store"
)

// The exit codes of all commands.
const (
	exitOK       = 0
	exitUsage    = 2
	exitInternal = 4
)

// cli is the command line.
type cli struct {
	Serve  serveCmd  `cmd:"" default:"withargs" help:"Serve HTTP. This is what gateway does without a command."`
	Health healthCmd `cmd:"" help:"Ask a gateway whether it is ready; exit code 0 is yes."`
	Token  struct {
		Create createCmd `cmd:"" help:"Make a token and print it. It is shown this once."`
		List   listCmd   `cmd:"" help:"List the tokens, those revoked or expired among them."`
		Revoke revokeCmd `cmd:"" help:"End a token."`
	} `cmd:"" help:"Make, list and revoke the tokens that requests bear."`
}

// database are the flags of whatever needs Postgres.
type database struct {
	Postgres       string        `help:"URL of the Postgres database. When it holds a password, better given as AIRLOCK_POSTGRES or as file: and the path of a file." placeholder:"URL" required:""`
	ConnectTimeout time.Duration `help:"How long NATS and Postgres are tried at start." default:"60s"`
	LogLevel       string        `help:"trace, debug, info, warn or error." default:"info" enum:"trace,debug,info,warn,error"`
}

// app is what every command works with.
type app struct {
	stdout, stderr io.Writer
}

const description = `Use Airlock over HTTP: submit jobs, wait for them, see what they did. /docs of a running gateway describes every route.

Exit codes: 0 ok, 2 wrong usage, 4 Airlock's own failure.`

// run is the whole command; it returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var flags cli
	left := false
	parser, err := kong.New(&flags, kong.Name("gateway"), kong.Description(description), kong.DefaultEnvars("AIRLOCK"),
		kong.Writers(stdout, stderr), kong.Exit(func(int) { left = true }))
	if err != nil {
		panic(err) // the tags of cli are wrong, which every test shows
	}
	parsed, err := parser.Parse(args)
	switch {
	case left:
		return exitOK
	case err != nil:
		fmt.Fprintf(stderr, "gateway: %v\nTry 'gateway --help'.\n", err)
		return exitUsage
	}
	parsed.BindTo(ctx, (*context.Context)(nil))
	err = parsed.Run(&app{stdout, stderr})
	var usage usageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "gateway: %v\n", err)
		return exitUsage
	}
	fmt.Fprintf(stderr, "gateway: %v\n", err)
	return exitInternal
}

// usageError is a mistake of who called.
type usageError string

func (e usageError) Error() string { return string(e) }

// open connects to the database.
func (d *database) open(ctx context.Context, log zerolog.Logger) (*store.Store, error) {
	url, err := secret.Read(d.Postgres)
	if err != nil {
		return nil, usageError("--postgres: " + err.Error())
	}
	ctx, cancel := context.WithTimeout(ctx, d.ConnectTimeout)
	defer cancel()
	s, err := store.Open(ctx, store.Config{URL: url, Log: log})
	if errors.Is(err, store.ErrOlderSchema) {
		return nil, fmt.Errorf("%w: start a worker, or run worker migrate", err)
	}
	if err != nil {
		return nil, fmt.Errorf("connect to Postgres (is --postgres right, and the server up?): %w", err)
	}
	return s, nil
}

// log is for machines: JSON lines on stderr.
func (d *database) log(stderr io.Writer) zerolog.Logger {
	level, err := zerolog.ParseLevel(d.LogLevel)
	if err != nil {
		level = zerolog.InfoLevel // the enum of the flag allows no other word
	}
	return zerolog.New(stderr).Level(level).With().Timestamp().Logger()
}
