//go:build unix

package wasmguest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// conn is the guest's end of its channel as the system has it.
type conn = *net.UnixConn

// given is what the process was started with, nil if it was not.
func given(fd uintptr, name string) *os.File { return os.NewFile(fd, name) }

func openChannel() (conn, error) {
	f := given(ChannelFD, "channel")
	defer f.Close()
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("open channel: %w", err)
	}
	unix, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, fmt.Errorf("open channel: it is a %T", conn)
	}
	return unix, nil
}

// readNow reads what is there already.
func (c *channel) readNow(p []byte) (n int, err error) {
	raw, err := c.conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var told error
	err = raw.Read(func(fd uintptr) bool {
		n, told = unix.Read(int(fd), p)
		return true
	})
	switch {
	case errors.Is(told, unix.EAGAIN) || errors.Is(told, unix.EINTR):
		return 0, os.ErrDeadlineExceeded
	case err != nil || told != nil:
		return 0, errors.Join(err, told)
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}
