package wasmguest

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"airlock/backends/internal/guestproc"

	"golang.org/x/sys/windows"
)

// conn is the guest's end of its channel as the system has it.
type conn = *os.File

// firstFD is the descriptor that the first of the handles stands for.
const firstFD = ChannelFD

// given is what the process was started with, nil if it was not.
func given(fd uintptr, name string) *os.File {
	numbers := strings.Split(os.Getenv(guestproc.HandlesVariable), ",")
	at := int(fd - firstFD)
	if at >= len(numbers) {
		return nil
	}
	handle, err := strconv.ParseUint(numbers[at], 10, 64)
	if err != nil {
		return nil
	}
	return os.NewFile(uintptr(handle), name)
}

func openChannel() (conn, error) {
	f := given(ChannelFD, "channel")
	if f == nil {
		return nil, errors.New("open channel: it was not passed on")
	}
	return f, nil
}

var peekNamedPipe = windows.NewLazySystemDLL("kernel32.dll").NewProc("PeekNamedPipe")

// readNow reads what is there already.
func (c *channel) readNow(p []byte) (n int, err error) {
	raw, err := c.conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var there uint32
	var told error
	err = raw.Control(func(fd uintptr) {
		if ok, _, wrong := peekNamedPipe.Call(fd, 0, 0, 0, uintptr(unsafe.Pointer(&there)), 0); ok == 0 {
			told = wrong
		}
	})
	switch {
	case err != nil || told != nil:
		return 0, errors.Join(err, told)
	case there == 0:
		return 0, os.ErrDeadlineExceeded
	}
	return c.conn.Read(p[:min(len(p), int(there))])
}
