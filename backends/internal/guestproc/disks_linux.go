package guestproc

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Disks are descriptors of a guest's writable file systems, which keep them
// there after the guest is gone.
type Disks []int

// Open opens those of the process at these paths of its own. Where the host
// forbids it, as in a container without CAP_SYS_PTRACE, a full disk is not
// noticed.
func (d *Disks) Open(pid int, paths []string) {
	if pid <= 0 {
		return
	}
	for _, dir := range paths {
		path := fmt.Sprintf("/proc/%d/root%s", pid, dir)
		fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err == nil {
			*d = append(*d, fd)
		}
	}
}

// Full reports whether one has no block or no inode left.
func (d Disks) Full() bool {
	for _, fd := range d {
		var s unix.Statfs_t
		if unix.Fstatfs(fd, &s) == nil && s.Type == unix.TMPFS_MAGIC && (s.Bfree == 0 || s.Files > 0 && s.Ffree == 0) {
			return true
		}
	}
	return false
}

// Close frees them.
func (d Disks) Close() {
	for _, fd := range d {
		_ = unix.Close(fd)
	}
}
