package provider

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
)

// Error is a failure that the guest may know about: both the code and the
// message reach it.
type Error struct {
	// Code is a word such as not_found: letters, digits, _, . and -. What
	// Reserved names belongs to the worker.
	Code    string
	Message string
}

// Error implements error.
func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Errorf makes an Error. Its text reaches the guest, so it must hold no
// secret: wrap nothing in it that came from elsewhere. A code that is reserved
// or is none is answered as CodeInternal, without the message.
func Errorf(code, format string, args ...any) error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Retryable marks an error after which the same call may be made again: it has
// had no effect, or has one only once.
func Retryable(err error) error { return retryable{err} }

type retryable struct{ error }

// Unwrap gives errors.As the error that was marked.
func (r retryable) Unwrap() error { return r.error }

// The codes that Serve itself answers with.
const (
	// CodeInternal stands for every error that is no Error, and for a panic.
	CodeInternal = "internal"
	// CodeBadArguments: the arguments do not fit the input schema or In.
	CodeBadArguments = "bad_arguments"
	// CodeTooLarge: no message carries the answer.
	CodeTooLarge = "too_large"
	// CodeDeadline: the call's deadline passed.
	CodeDeadline = "deadline_exceeded"
	// CodeCancelled: the worker said that nobody waits any more.
	CodeCancelled = "cancelled"
	// CodeUnavailable: the instance is ending, and the call was not begun.
	CodeUnavailable = "unavailable"
)

// reserved are the codes by which workers say what they did themselves.
var reserved = []string{
	"bad_name", "namespace_not_allowed", "not_granted", "denied", "unknown_tool", "no_provider", "tool_limit", "tool_time_limit",
	"rate_limited", "circuit_open", "timeout", "provider_error", "bad_answer", "cancelled", "finished", "audit_failed",
	"approval_denied", "approval_expired", "not_recorded", "diverged",
}

// Reserved reports whether only a worker may fail a call with this code: a
// guest must be able to tell its worker's word from a provider's.
func Reserved(code string) bool { return slices.Contains(reserved, code) }

// ErrCancelled is the cause with which a handler's context ends when the
// worker has given up the call.
var ErrCancelled = errors.New("the call was cancelled")

var codePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// failed is how an error is answered.
func failed(err error) Answer {
	var mark retryable
	a := Answer{Code: CodeInternal, Detail: err.Error(), Retryable: errors.As(err, &mark)}
	var told *Error
	switch {
	case errors.Is(err, ErrCancelled):
		a.Code = CodeCancelled
	case !errors.As(err, &told):
		if errors.Is(err, context.DeadlineExceeded) {
			a.Code = CodeDeadline
		}
	case !codePattern.MatchString(told.Code):
		a.Detail = fmt.Sprintf("%q is no code: %s", told.Code, a.Detail)
	case Reserved(told.Code):
		a.Detail = fmt.Sprintf("code %s is reserved to workers: %s", told.Code, a.Detail)
	default:
		a.Code, a.Message = told.Code, told.Message
	}
	return a
}
