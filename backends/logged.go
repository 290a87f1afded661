package backends

import (
	"context"
	"time"

	"github.com/rs/zerolog"
)

// Logged wraps a backend so that each Run leaves one line at debug level:
// whose guest it was, how it ended, and how long the backend took. The guest's
// code, output and arguments are never in it.
func Logged(b Backend, name string, log zerolog.Logger) Backend {
	return &logged{Backend: b, log: log.With().Str("backend", name).Logger()}
}

type logged struct {
	Backend
	log zerolog.Logger
}

// Run implements Backend.
func (l *logged) Run(ctx context.Context, task Task) (Outcome, error) {
	began := time.Now()
	outcome, err := l.Backend.Run(ctx, task)
	line := l.log.Debug().Stringer("job", task.Job).Int("attempt", task.Attempt).Dur("took", time.Since(began))
	if err != nil {
		line.Err(err).Msg("guest lost")
		return outcome, err
	}
	line.Stringer("cause", outcome.Cause).Int("exit_code", outcome.ExitCode).Str("signal", outcome.Signal).
		Dur("cpu", outcome.CPU).Int64("peak_memory", int64(outcome.PeakMemory)).Int("peak_processes", outcome.PeakProcesses).
		Msg("guest ended")
	return outcome, err
}
