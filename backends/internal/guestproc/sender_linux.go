package guestproc

import (
	"net"

	"golang.org/x/sys/unix"
)

// tellSender has the kernel name the sender of what is read from the socket,
// by its pid in our own namespace.
func tellSender(fd int) {
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PASSCRED, 1)
}

// readFirst reads once and says who sent it. There is room for the sender's
// credentials only, so that descriptors a guest passes are never received.
func readFirst(conn *net.UnixConn, p []byte) (n, pid int, err error) {
	oob := make([]byte, unix.CmsgSpace(unix.SizeofUcred))
	n, oobn, _, _, err := conn.ReadMsgUnix(p, oob)
	if err != nil || n == 0 {
		return n, 0, err
	}
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil || len(messages) == 0 {
		return n, 0, nil
	}
	if cred, err := unix.ParseUnixCredentials(&messages[0]); err == nil {
		pid = int(cred.Pid)
	}
	return n, pid, nil
}
