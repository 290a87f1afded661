//go:build unix

package interpreter

import (
	"io/fs"
	"os"
	"syscall"
)

// ours reports whether our own user owns the directory.
func ours(entry fs.DirEntry) bool {
	info, err := entry.Info()
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}
