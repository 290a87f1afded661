package broker

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// channel is a guest's byte channel with budgets, deadlines and a way to wake
// whoever is blocked in it.
type channel struct {
	rwc    io.ReadWriteCloser
	reader *bufio.Reader

	framesLeft int
	bytesIn    int64 // left to read, used by the reader only
	bytesOut   int64 // left to write, used by one writer at a time
	patience   time.Duration

	interrupted atomic.Bool
	wake        sync.Once
}

// readBuffer holds most frames whole, so that one read suffices.
const readBuffer = 16 << 10

// errOverdrawn is wrapped by errors about budgets.
var errOverdrawn = errors.New("over budget")

// errUnread: the guest does not take what it was sent.
var errUnread = errors.New("a frame was not taken in time")

func newChannel(rwc io.ReadWriteCloser, frames int, bytes int64, patience time.Duration) *channel {
	c := &channel{rwc: rwc, framesLeft: frames, bytesIn: bytes, bytesOut: bytes, patience: patience}
	c.reader = readers.Get().(*bufio.Reader)
	c.reader.Reset(rwc)
	return c
}

// readers are those of channels that have ended: their buffers were a sixth of
// all that a worker allocated for a job.
var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, readBuffer) }}

// release gives the buffer back, once nobody reads any more. The guest's bytes
// in it are out of the next one's reach: a reader serves what it has read.
func (c *channel) release() {
	c.reader.Reset(nil)
	readers.Put(c.reader)
	c.reader = nil
}

// read returns the body of the next frame.
func (c *channel) read() ([]byte, error) {
	body, err := ReadFrame(c.reader)
	if err != nil {
		return nil, err
	}
	if c.framesLeft--; c.framesLeft < 0 {
		return nil, fmt.Errorf("%w: too many frames from the guest", errOverdrawn)
	}
	if c.bytesIn -= int64(len(body) + frameHeader); c.bytesIn < 0 {
		return nil, fmt.Errorf("%w: too many bytes from the guest", errOverdrawn)
	}
	return body, nil
}

// writePiece is how much of a frame has to be taken within the channel's
// patience. A guest that reads slowly, on a host whose processors others have,
// is not one that does not read.
const writePiece = 64 << 10

// write sends one frame, and waits no longer than its patience for each piece.
func (c *channel) write(body []byte) error {
	frame, err := AppendFrame(make([]byte, 0, len(body)+frameHeader), body)
	if err != nil {
		return err
	}
	if c.bytesOut -= int64(len(frame)); c.bytesOut < 0 {
		return fmt.Errorf("%w: too many bytes to the guest", errOverdrawn)
	}
	for piece := range slices.Chunk(frame, writePiece) {
		if err := c.writeSome(piece); err != nil {
			return err
		}
	}
	return nil
}

func (c *channel) writeSome(piece []byte) error {
	late, stop := c.limitWrite()
	defer stop()
	_, err := c.rwc.Write(piece)
	if err != nil && (errors.Is(err, os.ErrDeadlineExceeded) || late()) {
		return errUnread
	}
	return err
}

// limitWrite bounds the next write: by a deadline where the channel has them,
// else by closing it. late reports whether it was closed for that reason.
func (c *channel) limitWrite() (late func() bool, stop func() bool) {
	if c.setWriteDeadline(time.Now().Add(c.patience)) {
		if c.interrupted.Load() {
			c.setWriteDeadline(longAgo)
		}
		return func() bool { return false }, func() bool { return true }
	}
	var fired atomic.Bool
	timer := time.AfterFunc(c.patience, func() {
		fired.Store(true)
		c.rwc.Close()
	})
	return fired.Load, timer.Stop
}

// longAgo is a deadline that has passed.
var longAgo = time.Unix(1, 0)

// interrupt makes every read and write fail from now on, also one that is
// blocked. It closes a channel that has no deadlines.
func (c *channel) interrupt() {
	c.wake.Do(func() {
		c.interrupted.Store(true)
		if !c.setReadDeadline(longAgo) || !c.setWriteDeadline(longAgo) {
			c.rwc.Close()
		}
	})
}

func (c *channel) setReadDeadline(t time.Time) bool {
	d, ok := c.rwc.(interface{ SetReadDeadline(time.Time) error })
	return ok && d.SetReadDeadline(t) == nil
}

func (c *channel) setWriteDeadline(t time.Time) bool {
	d, ok := c.rwc.(interface{ SetWriteDeadline(time.Time) error })
	return ok && d.SetWriteDeadline(t) == nil
}
