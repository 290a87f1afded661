//go:build !unix

package backendtest

import (
	"errors"
	"io"
	"os"
)

// gone reports whether the error is that of a channel whose other end, or
// whose own, is closed.
func gone(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, os.ErrClosed) || errors.Is(err, io.ErrClosedPipe)
}
