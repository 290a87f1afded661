//go:build unix

package backendtest

import (
	"errors"
	"io"
	"os"
	"syscall"
)

// gone reports whether the error is that of a channel whose other end, or
// whose own, is closed.
func gone(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, os.ErrClosed) || errors.Is(err, io.ErrClosedPipe) ||
		errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}
