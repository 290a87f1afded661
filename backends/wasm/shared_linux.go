package wasm

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// newShared makes a file in memory that no name leads to.
func newShared(name string) (*os.File, error) {
	fd, err := unix.MemfdCreate("airlock-"+name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("make shared memory: %w", err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// freeze lets nobody change the file any more, through whatever descriptor. The
// file to use from then on is the one it returns.
func freeze(f *os.File) (*os.File, error) {
	const all = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, all); err != nil {
		return f, fmt.Errorf("seal %s: %w", f.Name(), err)
	}
	return f, nil
}
