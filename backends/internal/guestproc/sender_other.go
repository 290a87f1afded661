//go:build unix && !linux

package guestproc

import "net"

func tellSender(int) {}

func readFirst(conn *net.UnixConn, p []byte) (n, pid int, err error) {
	n, err = conn.Read(p)
	return n, 0, err
}
