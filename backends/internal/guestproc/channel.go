package guestproc

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// channel is the host's end of a guest's channel.
type channel struct {
	conn conn
	// spoke is called with the pid of the process that sent the first bytes,
	// or 0 if the system does not tell, before Read hands them on. Nothing of
	// the job can be in the guest before. Its error is kept in wrong, which is
	// read when nobody reads the channel.
	spoke  func(pid int) error
	wrong  error
	spoken atomic.Bool
	ended  atomic.Bool
}

// Read implements io.Reader. One goroutine at a time may call it.
func (c *channel) Read(p []byte) (int, error) {
	if c.spoken.Load() {
		return c.mark(c.conn.Read(p))
	}
	n, pid, err := readFirst(c.conn, p)
	n = max(n, 0) // the system call says -1 beside an error
	if n > 0 {
		c.spoken.Store(true)
		if c.wrong = c.spoke(pid); c.wrong != nil {
			return 0, c.wrong
		}
	}
	return c.mark(n, err)
}

// mark notes that the guest has hung up.
func (c *channel) mark(n int, err error) (int, error) {
	if errors.Is(err, io.EOF) || hungUp(err) {
		c.ended.Store(true)
	}
	return n, err
}

// Write implements io.Writer.
func (c *channel) Write(p []byte) (int, error) {
	n, err := c.conn.Write(p)
	if hungUp(err) {
		c.ended.Store(true)
	}
	return n, err
}

// Close implements io.Closer. It may be called twice, as the conversation and
// the end of the guest both do.
func (c *channel) Close() error {
	if err := c.conn.Close(); !errors.Is(err, net.ErrClosed) && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// SetDeadline, SetReadDeadline and SetWriteDeadline are those of net.Conn, for
// a conversation that bounds how long a guest may take.
func (c *channel) SetDeadline(t time.Time) error      { return c.conn.SetDeadline(t) }
func (c *channel) SetReadDeadline(t time.Time) error  { return c.conn.SetReadDeadline(t) }
func (c *channel) SetWriteDeadline(t time.Time) error { return c.conn.SetWriteDeadline(t) }
