package guestproc

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/windows"
)

// conn is the host's end of a channel as the system has it.
type conn = *os.File

// guestEnd is the guest's. It is no os.File: that would tie it to the poller
// of this process, and then to no other's any more.
type guestEnd windows.Handle

// Close closes it.
func (e guestEnd) Close() error { return windows.CloseHandle(windows.Handle(e)) }

// pipeSize is how much a channel holds that nobody has read.
const pipeSize = 64 << 10

// newChannel makes a channel and the guest's end of it: a pipe of one instance,
// whose other end is opened at once, so that nothing else can.
func newChannel(spoke func(pid int) error) (*channel, guestEnd, error) {
	name, err := windows.UTF16PtrFromString(`\\.\pipe\airlock-` + rand.Text())
	if err != nil {
		return nil, 0, fmt.Errorf("make channel: %w", err)
	}
	host, err := windows.CreateNamedPipe(name,
		windows.PIPE_ACCESS_DUPLEX|windows.FILE_FLAG_OVERLAPPED|windows.FILE_FLAG_FIRST_PIPE_INSTANCE,
		windows.PIPE_TYPE_BYTE|windows.PIPE_REJECT_REMOTE_CLIENTS, 1, pipeSize, pipeSize, 0, nil)
	if err != nil {
		return nil, 0, fmt.Errorf("make channel: %w", err)
	}
	// Who serves the other end learns nothing of us, and cannot act for us.
	const anonymous = windows.SECURITY_SQOS_PRESENT | windows.SECURITY_ANONYMOUS
	guest, err := windows.CreateFile(name, windows.GENERIC_READ|windows.GENERIC_WRITE, 0, nil,
		windows.OPEN_EXISTING, windows.FILE_FLAG_OVERLAPPED|anonymous, 0)
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("make channel: %w", err), windows.CloseHandle(host))
	}
	if err := windows.ConnectNamedPipe(host, &windows.Overlapped{}); err != nil && !errors.Is(err, windows.ERROR_PIPE_CONNECTED) {
		return nil, 0, errors.Join(fmt.Errorf("make channel: %w", err), windows.CloseHandle(host), windows.CloseHandle(guest))
	}
	return &channel{conn: os.NewFile(uintptr(host), "channel"), spoke: spoke}, guestEnd(guest), nil
}

// readFirst reads once. A pipe does not say who has written.
func readFirst(conn conn, p []byte) (n, pid int, err error) {
	n, err = conn.Read(p)
	return n, 0, err
}

// hungUp reports whether the guest has closed its end.
func hungUp(err error) bool {
	return errors.Is(err, windows.ERROR_BROKEN_PIPE) || errors.Is(err, windows.ERROR_NO_DATA) || errors.Is(err, windows.ERROR_PIPE_NOT_CONNECTED)
}
