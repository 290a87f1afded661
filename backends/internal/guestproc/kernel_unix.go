//go:build unix

package guestproc

import "golang.org/x/sys/unix"

// Kernel is the release of the system's kernel.
func Kernel() string {
	var name unix.Utsname
	if unix.Uname(&name) != nil {
		return ""
	}
	return unix.ByteSliceToString(name.Release[:])
}
