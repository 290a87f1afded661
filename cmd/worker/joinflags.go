package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"airlock/cmd/internal/secret"
	"airlock/queue"
)

// natsFlags are those of the commands that talk to NATS only.
type natsFlags struct {
	Nats           string        `help:"URL of the NATS server, such as nats://host:4222, or file: and the path of a file that holds it." placeholder:"URL"`
	ConnectTimeout time.Duration `help:"How long NATS is tried." default:"10s"`
}

func (f *natsFlags) validate() (err error) {
	if f.Nats, err = secret.Read(f.Nats); err != nil {
		return fmt.Errorf("--nats: %w", err)
	}
	if f.Nats == "" {
		return errors.New("give --nats, the server that the workers join")
	}
	return nil
}

func (f *natsFlags) connect(ctx context.Context, name string, log zerolog.Logger) (*nats.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, f.ConnectTimeout)
	defer cancel()
	nc, err := queue.Connect(ctx, f.Nats, name, log)
	if err != nil {
		return nil, fmt.Errorf("connect to NATS (is --nats right, and the server up?): %w", err)
	}
	return nc, nil
}

// untilSignalled ends the context on the first signal to leave.
func untilSignalled(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
}

// told says how a command came to its end, and returns its exit code.
func told(err error, command string, stderr io.Writer) int {
	if err == nil {
		return exitOK
	}
	fmt.Fprintf(stderr, "worker %s: %v\n", command, err)
	return exitInternal
}

// commandLog is what a command's parts say while it runs.
func commandLog(stderr io.Writer) zerolog.Logger {
	return zerolog.New(stderr).Level(zerolog.InfoLevel).With().Timestamp().Logger()
}
