package wasmguest

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"net"
	"os"
	"time"

	"airlock/backends/internal/frame"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// What the functions of the channel return instead of a length.
const (
	failed  = -1
	timeout = -1
	closed  = -2
)

// channel is the guest's end of its conversation, as the imported functions of
// the module airlock. One goroutine uses it: the module's.
type channel struct {
	conn conn
	// next is what has been read of the next frame, length included.
	next []byte
	// read is what of next is there.
	read int
	// whole says that next is a whole frame that waits to be taken.
	whole bool
}

const prefix = 4

// define makes the module that the guest imports its channel from. With a nil
// channel, as while an image is made, all of it is closed.
func define(ctx context.Context, r wazero.Runtime, c *channel) error {
	b := r.NewHostModuleBuilder("airlock")
	b.NewFunctionBuilder().WithFunc(func(_ context.Context, m api.Module, at, size uint32) int32 {
		body, ok := m.Memory().Read(at, size)
		if !ok || c == nil {
			return failed
		}
		return c.send(body)
	}).Export("send")
	b.NewFunctionBuilder().WithFunc(func(_ context.Context, patience int64) int32 {
		if c == nil {
			return closed
		}
		return c.wait(patience)
	}).Export("wait")
	b.NewFunctionBuilder().WithFunc(func(_ context.Context, m api.Module, at, size uint32) int32 {
		if c == nil {
			return failed
		}
		to, ok := m.Memory().Read(at, size)
		if !ok {
			return failed
		}
		return c.take(to)
	}).Export("take")
	_, err := b.Instantiate(ctx)
	return err
}

// send sends one frame. What it holds, and whether it is too long, is for the
// worker to judge.
func (c *channel) send(body []byte) int32 {
	var head [prefix]byte
	binary.BigEndian.PutUint32(head[:], uint32(len(body)))
	pieces := net.Buffers{head[:], body}
	if _, err := pieces.WriteTo(c.conn); err != nil {
		return failed
	}
	return 0
}

// wait waits so many microseconds for the next frame, or for ever if they are
// negative, and returns its length.
func (c *channel) wait(patience int64) int32 {
	if c.whole {
		return c.length()
	}
	var limit time.Time
	if patience >= 0 {
		limit = time.Now().Add(time.Duration(min(patience, math.MaxInt64/int64(time.Microsecond))) * time.Microsecond)
	}
	read := c.conn.Read
	if patience == 0 {
		read, limit = c.readNow, time.Time{} // a deadline that has passed would not even look
	}
	if err := c.conn.SetReadDeadline(limit); err != nil {
		return closed
	}
	err := c.fill(prefix, read)
	if err == nil {
		size := binary.BigEndian.Uint32(c.next)
		if size > frame.Max {
			return closed
		}
		err = c.fill(prefix+int(size), read)
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return timeout
	case err != nil:
		return closed
	}
	c.whole = true
	return c.length()
}

func (c *channel) length() int32 { return int32(len(c.next) - prefix) }

// fill reads until so many bytes of the frame are there. It may be called
// again after its time was up.
func (c *channel) fill(size int, read func([]byte) (int, error)) error {
	for len(c.next) < size {
		c.next = append(c.next, make([]byte, size-len(c.next))...)
	}
	for c.read < size {
		n, err := read(c.next[c.read:size])
		c.read += n
		if err != nil && c.read < size {
			return err
		}
	}
	return nil
}

// take hands out the frame that wait has announced, if there is room for it.
func (c *channel) take(to []byte) int32 {
	if !c.whole || len(to) < len(c.next)-prefix {
		return failed
	}
	n := copy(to, c.next[prefix:])
	c.next, c.read, c.whole = nil, 0, false
	return int32(n)
}
