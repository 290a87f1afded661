package provider

import (
	"context"
	"errors"
	"fmt"
	"regexp"
)

// Error is a failure that the guest may know about: both the code and the
// message reach it.
type Error struct {
	// Code is a word such as not_found: letters, digits, _, . and -.
	Code    string
	Message string
}

// Error implements error.
func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Errorf makes an Error. Its text reaches the guest, so it must hold no
// secret: wrap nothing in it that came from elsewhere.
func Errorf(code, format string, args ...any) error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// The codes that Serve itself answers with.
const (
	// CodeInternal stands for every error that is no Error, and for a panic.
	CodeInternal = "internal"
	// CodeBadArguments: Func could not decode the arguments.
	CodeBadArguments = "bad_arguments"
)

var codePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// described is how an error is answered: its code, what the guest may know,
// and what operators get.
func described(err error) (code, public, private string) {
	var told *Error
	if !errors.As(err, &told) {
		if errors.Is(err, context.DeadlineExceeded) {
			return CodeDeadline, "", err.Error()
		}
		return CodeInternal, "", err.Error()
	}
	if !codePattern.MatchString(told.Code) {
		return CodeInternal, told.Message, err.Error()
	}
	return told.Code, told.Message, err.Error()
}
