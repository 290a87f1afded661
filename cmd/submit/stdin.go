package main

import (
	"context"
	"io"
)

// interruptible is a reader whose Read ends with ctx. A read of standard input
// cannot be broken off, so its goroutine is left behind then; the process is
// about to end.
type interruptible struct {
	ctx context.Context
	r   io.Reader
}

// Read implements io.Reader.
func (i interruptible) Read(p []byte) (int, error) {
	type read struct {
		n   int
		err error
	}
	// The read must not write to p after this call has returned.
	buffer := make([]byte, min(len(p), 64<<10))
	done := make(chan read, 1)
	go func() {
		n, err := i.r.Read(buffer)
		done <- read{n, err}
	}()
	select {
	case got := <-done:
		return copy(p, buffer[:got.n]), got.err
	case <-i.ctx.Done():
		return 0, context.Cause(i.ctx)
	}
}
