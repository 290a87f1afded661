package bridge

import (
	"io"

	"github.com/rs/zerolog"
)

// RawKey, MaxMessage, CheckMessage and NewLines are for tests.
const (
	RawKey     = rawKey
	MaxMessage = maxMessage
)

var CheckMessage = checkMessage

// NewLines reads a server's lines.
func NewLines(in io.Reader) io.ReadCloser { return newLines(io.NopCloser(in), zerolog.Nop()) }

// NewEvents reads a server's events.
func NewEvents(in io.Reader) io.ReadCloser { return newEvents(io.NopCloser(in)) }
