package forkserver

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/sys/unix"
)

// order is what the worker says to a slot; one field is set.
type order struct {
	Guest *guestOrder `json:"guest,omitzero"`
	Enter bool        `json:"enter,omitzero"`
	Kill  bool        `json:"kill,omitzero"`
	Slot  bool        `json:"slot,omitzero"` // to a template
}

// guestOrder says how the next guest is to be confined.
type guestOrder struct {
	// User is its uid and gid inside; absent where all share the worker's.
	User     int         `json:"user,omitzero"`
	Writable []string    `json:"writable"`
	Options  string      `json:"options"`
	Bounds   [][3]uint64 `json:"bounds"`
	// Input says that its standard input is not the null device.
	Input bool `json:"input,omitzero"`
}

// answer is what a template or a slot says; one field is set.
type answer struct {
	Hello   bool    `json:"hello"`
	Ready   bool    `json:"ready"`
	Started bool    `json:"started"`
	Failed  *failed `json:"failed"`
	Ended   *ended  `json:"ended"`
}

// failed is why no guest was forked.
type failed struct {
	What  string `json:"what"`
	Errno int    `json:"errno"`
}

// ended is how a guest ended, as its parent saw it.
type ended struct {
	Status   uint32 `json:"status"`
	CPU      int64  `json:"cpu"`      // nanoseconds
	Resident int64  `json:"resident"` // bytes, the main process's at most
}

// control is the worker's end of a template's or slot's socket, on which each
// message is one datagram.
type control struct {
	conn *net.UnixConn
	// data and oob are what one message is read into.
	data [maxAnswer]byte
	oob  []byte
}

// errGone is wrapped where the other end has hung up.
var errGone = errors.New("the process has ended")

// newControl makes a socket and the other end of it.
func newControl() (*control, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make control socket: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "control"), os.NewFile(uintptr(fds[1]), "control, far end")
	defer ours.Close()
	err = unix.SetsockoptInt(fds[0], unix.SOL_SOCKET, unix.SO_PASSCRED, 1)
	var conn net.Conn
	if err == nil {
		conn, err = net.FileConn(ours)
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("make control socket: %w", err), theirs.Close())
	}
	return &control{conn: conn.(*net.UnixConn), oob: make([]byte, unix.CmsgSpace(unix.SizeofUcred))}, theirs, nil
}

// send sends a message with descriptors.
func (c *control) send(o order, files ...*os.File) error {
	data, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("send order: %w", err)
	}
	var rights []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			fds[i] = int(f.Fd())
		}
		rights = unix.UnixRights(fds...)
	}
	_, _, err = c.conn.WriteMsgUnix(data, rights, nil)
	switch {
	case errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET):
		return fmt.Errorf("send order: %w", errGone)
	case err != nil:
		return fmt.Errorf("send order: %w", err)
	}
	return nil
}

// maxAnswer bounds one message.
const maxAnswer = 1 << 10

// receive waits for the next message, for ever if limit is zero, and says who
// sent it. One goroutine at a time may call it.
func (c *control) receive(limit time.Duration) (a answer, pid int, err error) {
	var deadline time.Time
	if limit > 0 {
		deadline = time.Now().Add(limit)
	}
	if err := c.conn.SetReadDeadline(deadline); err != nil {
		return a, 0, fmt.Errorf("read answer: %w", err)
	}
	n, oobn, _, _, err := c.conn.ReadMsgUnix(c.data[:], c.oob)
	switch {
	case n == 0 && err == nil || errors.Is(err, io.EOF) || errors.Is(err, unix.ECONNRESET):
		return a, 0, fmt.Errorf("read answer: %w", errGone)
	case err != nil:
		return a, 0, fmt.Errorf("read answer: %w", err)
	}
	if err := json.Unmarshal(c.data[:n], &a, json.RejectUnknownMembers(true)); err != nil {
		return a, 0, fmt.Errorf("read answer: %w", err)
	}
	return a, senderOf(c.oob[:oobn]), nil
}

func senderOf(oob []byte) int {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil || len(messages) == 0 {
		return 0
	}
	cred, err := unix.ParseUnixCredentials(&messages[0])
	if err != nil {
		return 0
	}
	return int(cred.Pid)
}

func (c *control) close() error { return c.conn.Close() }
