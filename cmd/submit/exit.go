package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"airlock/job"
	"airlock/queue"
)

// The exit codes; doc.go says when each is given.
const (
	codeOK          = 0
	codeFailed      = 1
	codeUsage       = 2
	codeUnplaceable = 3
	codeAirlock     = 4
	codeInterrupted = 130 // what a shell reports of a process that SIGINT ended
)

// exitError ends the command with a code. Without err there is nothing more
// to say: the output said it.
type exitError struct {
	code int
	err  error
}

// Error implements error.
func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

// Unwrap gives errors.Is and errors.As the cause.
func (e *exitError) Unwrap() error { return e.err }

func usageError(format string, args ...any) error {
	return &exitError{codeUsage, fmt.Errorf(format, args...)}
}

// exitWith ends the command with a code and without a message.
func exitWith(code int) error {
	if code == codeOK {
		return nil
	}
	return &exitError{code: code}
}

// end says what went wrong, with what to try, and returns the exit code.
func (a *app) end(ctx context.Context, err error) int {
	if err == nil {
		return codeOK
	}
	code := codeOf(err)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		a.talk.say("interrupted")
		return codeInterrupted
	}
	var exit *exitError
	if errors.As(err, &exit) && exit.err == nil {
		return code
	}
	// Errors that were joined stand on lines of their own.
	a.talk.fault("%s", strings.ReplaceAll(err.Error(), "\n", "; "))
	if try := hint(err); try != "" {
		a.talk.fault("try: %s", try)
	}
	return code
}

func codeOf(err error) int {
	var (
		exit        *exitError
		field       *job.FieldError
		conflict    *queue.ConflictError
		unplaceable *queue.UnplaceableError
		remote      *queue.RemoteError
	)
	switch {
	case errors.As(err, &exit):
		return exit.code
	case errors.As(err, &unplaceable):
		return codeUnplaceable
	case errors.As(err, &field), errors.As(err, &conflict), errors.Is(err, queue.ErrTooLarge), errors.Is(err, queue.ErrNoApprover):
		return codeUsage
	case errors.As(err, &remote):
		return remoteCode(remote)
	}
	return codeAirlock
}

// The codes of remote errors that the workers document, beside the queue's.
const (
	remoteNotFound = "not_found"
	remoteConflict = "conflict"
)

func remoteCode(err *queue.RemoteError) int {
	switch err.Code {
	case remoteNotFound, remoteConflict, queue.CodeBadRequest, queue.CodeUnknownVerb:
		return codeUsage
	}
	return codeAirlock
}

// hint is what to try after err, or "".
func hint(err error) string {
	var (
		unplaceable *queue.UnplaceableError
		conflict    *queue.ConflictError
		remote      *queue.RemoteError
	)
	switch {
	case errors.Is(err, queue.ErrUnreachable):
		return "start one with `worker --standalone`, or name the right server with --nats URL or " + envTwin("nats")
	case errors.Is(err, queue.ErrNoQueue), errors.Is(err, queue.ErrNoWorker):
		return "start a worker: `worker --standalone`, or `worker --nats URL --postgres URL` to join a pool"
	case errors.Is(err, queue.ErrRefused):
		return "the address with the login of the tenant's submitter in " + envTwin("nats") + ", or --tenant for the one it is of"
	case errors.Is(err, queue.ErrNoApprover):
		return "the address with the login of the tenant's approver in " + envTwin("nats")
	case errors.As(err, &unplaceable):
		return "`submit workers` shows what there is; --park lets the job wait for a worker that fits"
	case errors.As(err, &conflict):
		return "another --key, or the same job as before"
	case errors.Is(err, queue.ErrTooManyLanes):
		return "ask for a combination that is in use; `submit lanes` lists them"
	case errors.As(err, &remote) && remote.Code == queue.CodeUnavailable:
		return "again when the workers reach Postgres; nothing is lost meanwhile"
	}
	return ""
}
