package wasmguest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

// reserve takes so much address space. What of it is used must be committed
// first, so that the process is charged for that alone.
func reserve(size int) ([]byte, error) {
	at, err := windows.VirtualAlloc(0, uintptr(size), windows.MEM_RESERVE, windows.PAGE_READWRITE)
	if err != nil {
		return nil, err
	}
	return pointed(at, size), nil
}

// commit makes the memory usable, whatever of it was so already. It fails when
// the process may have no more.
func commit(part []byte) error {
	if len(part) == 0 {
		return nil
	}
	_, err := windows.VirtualAlloc(uintptr(unsafe.Pointer(&part[0])), uintptr(len(part)), windows.MEM_COMMIT, windows.PAGE_READWRITE)
	return err
}

func unreserve(whole []byte) {
	_ = windows.VirtualFree(uintptr(unsafe.Pointer(&whole[0])), 0, windows.MEM_RELEASE)
}

// replace copies the image to the memory's beginning: no file can be mapped
// over what is reserved.
func (m *memory) replace(image *os.File, size int64) error {
	if _, err := io.ReadFull(io.NewSectionReader(image, 0, size), m.whole[:size]); err != nil {
		return fmt.Errorf("copy image: %w", err)
	}
	return nil
}

// Map is a file's content, shared with whoever else has mapped it.
func Map(f *os.File, write bool) (data []byte, err error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	protection, access := uint32(windows.PAGE_READONLY), uint32(windows.FILE_MAP_READ)
	if write {
		protection, access = windows.PAGE_READWRITE, windows.FILE_MAP_READ|windows.FILE_MAP_WRITE
	}
	section, err := windows.CreateFileMapping(windows.Handle(f.Fd()), nil, protection, 0, 0, nil)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", f.Name(), err)
	}
	defer func() { err = errors.Join(err, windows.CloseHandle(section)) }()
	at, err := windows.MapViewOfFile(section, access, 0, 0, 0)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", f.Name(), err)
	}
	return pointed(at, int(info.Size())), nil
}

// Unmap ends what Map began.
func Unmap(data []byte) { _ = windows.UnmapViewOfFile(uintptr(unsafe.Pointer(&data[0]))) }

// pointed is memory that the system has given out. It is nothing of the
// collector's, so its address is as good as a pointer.
func pointed(at uintptr, size int) []byte {
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&at)), size)
}
