package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"airlock/cmd/internal/secret"
	"airlock/job"
	"airlock/queue"
)

// session is a connection to the queue.
type session struct {
	*queue.Queue
	nc     *nats.Conn
	tenant string
	// patience is how long one question may take.
	patience time.Duration
	talk     *talk
}

// open connects within --timeout; the log says when that takes more than one
// try.
func (a *app) open(ctx context.Context) (*session, error) {
	f := a.flags
	if !job.ValidName(f.Tenant) {
		return nil, usageError("--tenant: want 1 to 64 letters, digits, _ and -")
	}
	if f.Timeout <= 0 {
		return nil, usageError("--timeout: want more than nothing")
	}
	url, err := secret.Read(f.NATS)
	if err != nil {
		return nil, usageError("--nats: %v", err)
	}
	dial, cancel := context.WithTimeout(ctx, f.Timeout.Std())
	defer cancel()
	log := a.talk.logger()
	nc, err := queue.Connect(dial, url, "airlock submit", log)
	if err != nil {
		return nil, errors.Join(ctx.Err(), err)
	}
	q, err := a.attach(dial, nc, queue.Config{Log: log, Tenant: f.Tenant})
	if err != nil {
		nc.Close()
		return nil, errors.Join(ctx.Err(), err)
	}
	return &session{q, nc, f.Tenant, f.Timeout.Std(), a.talk}, nil
}

// attach waits for a first worker to set the queue up, as it may be starting
// at this moment.
func (a *app) attach(ctx context.Context, nc *nats.Conn, cfg queue.Config) (*queue.Queue, error) {
	var absent error
	for {
		q, err := queue.Attach(ctx, nc, cfg)
		switch {
		case err != nil && ctx.Err() != nil && absent != nil:
			return nil, absent
		case !errors.Is(err, queue.ErrNoQueue):
			return q, err
		}
		absent = err
		a.talk.seldom("no queue", "waiting for a worker to set up the queue")
		if !pause(ctx, 250*time.Millisecond) {
			return nil, err
		}
	}
}

func (s *session) close() {
	_ = s.Queue.Close() // nothing of ours is left in it
	s.nc.Close()
}

// ask puts a question to the workers and waits at most --timeout.
func (s *session) ask(ctx context.Context, verb string, request, response any) error {
	limited, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	err := s.Ask(limited, s.tenant, verb, request, response)
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		return fmt.Errorf("no answer from the workers within %s: %w", s.patience, err)
	}
	return err
}

// settle is how long a job may take from the queue into the history.
const settle = 2 * time.Second

// askSettled is ask about something that may be of this moment: "not found"
// counts only when it stays so until the given time.
func (s *session) askSettled(ctx context.Context, until time.Time, verb string, request, response any) error {
	for {
		err := s.ask(ctx, verb, request, response)
		if !isNotFound(err) || time.Now().After(until) {
			return err
		}
		if !pause(ctx, 100*time.Millisecond) {
			return ctx.Err()
		}
	}
}

// askJob is ask about one job, whose id says how old it is.
func (s *session) askJob(ctx context.Context, verb string, id job.ID, response any) error {
	return s.askSettled(ctx, id.Time().Add(settle), verb, idRequest{id}, response)
}

func isNotFound(err error) bool {
	var remote *queue.RemoteError
	return errors.As(err, &remote) && remote.Code == remoteNotFound
}

// pause waits and reports whether ctx is still going.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
