//go:build unix

package guestproc

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
)

// conn is the host's end of a channel as the system has it, guestEnd the
// guest's.
type (
	conn     = *net.UnixConn
	guestEnd = *os.File
)

// newChannel makes a channel and the guest's end of it.
func newChannel(spoke func(pid int) error) (*channel, *os.File, error) {
	syscall.ForkLock.RLock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, fmt.Errorf("make channel: %w", err)
	}
	tellSender(fds[0])
	host, guest := os.NewFile(uintptr(fds[0]), "channel"), os.NewFile(uintptr(fds[1]), "guest's channel")
	defer host.Close()
	conn, err := net.FileConn(host)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("make channel: %w", err), guest.Close())
	}
	return &channel{conn: conn.(*net.UnixConn), spoke: spoke}, guest, nil
}

// hungUp reports whether the guest has closed its end.
func hungUp(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// begin starts the guest with its descriptors.
func (g *Guest) begin(streams [3]*os.File, end guestEnd) (Process, error) {
	start := g.Start
	if start == nil {
		start = g.start
	}
	return start(append(append(streams[:3:3], end), g.Files...))
}
