//go:build unix

package doctor

import (
	"io/fs"
	"syscall"
)

// owner is who a file belongs to.
func owner(info fs.FileInfo) (uid, gid int, ok bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, false
	}
	return int(stat.Uid), int(stat.Gid), true
}
