//go:build unix

package wasmguest

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// reserve takes so much address space, all of it usable at once.
func reserve(size int) ([]byte, error) {
	return unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
}

// commit has nothing to do: a page is there when it is touched.
func commit([]byte) error { return nil }

func unreserve(whole []byte) { _ = unix.Munmap(whole) }

// replace puts the image in place of the memory's beginning. Each page is the
// image's own until the guest writes to it.
func (m *memory) replace(image *os.File, size int64) error {
	at := unsafe.Pointer(&m.whole[0])
	got, err := unix.MmapPtr(int(image.Fd()), 0, at, uintptr(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_FIXED)
	if err != nil {
		return fmt.Errorf("map image: %w", err)
	}
	if got != at {
		return fmt.Errorf("map image: it came to lie elsewhere")
	}
	return nil
}

// Map is a file's content, shared with whoever else has mapped it.
func Map(f *os.File, write bool) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	protection := unix.PROT_READ
	if write {
		protection |= unix.PROT_WRITE
	}
	data, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), protection, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", f.Name(), err)
	}
	return data, nil
}

// Unmap ends what Map began.
func Unmap(data []byte) { _ = unix.Munmap(data) }
