//go:build unix

package wasm

import (
	"fmt"
	"os"
	"syscall"
)

// makePrivate makes a directory for us alone, if it is not there.
func makePrivate(dir string) error { return os.MkdirAll(dir, 0o700) }

// checkPrivate refuses a directory that is not ours alone.
func checkPrivate(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("look at directory for compiled code: %w", err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.IsDir():
		return fmt.Errorf("%s is to hold compiled code and is no directory: remove it", dir)
	case !ok || int(stat.Uid) != os.Geteuid():
		return fmt.Errorf("%s is to hold compiled code and belongs to another user: remove it", dir)
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("%s is to hold compiled code and other users may reach it: chmod 700, after a look at who wrote what is in it, or remove it", dir)
	}
	return nil
}
