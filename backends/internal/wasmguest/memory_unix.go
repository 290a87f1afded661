//go:build unix

package wasmguest

import (
	"fmt"
	"os"
	"unsafe"

	"github.com/tetratelabs/wazero/experimental"
	"golang.org/x/sys/unix"
)

// memory is a module's linear memory at an address that does not change.
type memory struct {
	whole  []byte
	ledger Ledger
}

// allocator reserves all that a module may ever use; what it does not touch
// costs nothing. The last memory it made is in last.
type allocator struct {
	ledger Ledger
	limit  uint64
	last   *memory
}

// Allocate implements experimental.MemoryAllocator.
func (a *allocator) Allocate(_, most uint64) experimental.LinearMemory {
	whole, err := unix.Mmap(-1, 0, int(min(most, a.limit)), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		panic(fmt.Errorf("reserve the guest's memory: %w", err))
	}
	a.last = &memory{whole: whole, ledger: a.ledger}
	return a.last
}

// Reallocate implements experimental.LinearMemory, as does Free.
func (m *memory) Reallocate(size uint64) []byte {
	if size > uint64(len(m.whole)) {
		m.ledger.Refused()
		return nil
	}
	m.ledger.Grown(size)
	return m.whole[:size]
}

func (m *memory) Free() { _ = unix.Munmap(m.whole) }

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

// mapped is a file's content, shared with whoever else has mapped it.
func mapped(f *os.File, write bool) ([]byte, error) {
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
