package wasmguest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// shareCode copies the native code out of a file of the compile cache, to
// where processes can map it. wazero reads it into memory of each process's
// own, 16 MiB of which a guest runs a part. Without it, as when the file's form
// is another one, they keep what they have.
func shareCode(to *os.File, file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read compiled code: %w", err)
	}
	code := nativeCode(data)
	padding := -len(code) & (os.Getpagesize() - 1)
	if _, err := to.Write(append(code[:len(code):len(code)], make([]byte, padding)...)); err != nil {
		return fmt.Errorf("share compiled code: %w", err)
	}
	return nil
}

// nativeCode is the part of a cached file that is mapped for execution: after
// a magic word, wazero's version, the number of functions, the place of each,
// and its own length. It is nil if that is not how the file is made.
func nativeCode(file []byte) []byte {
	const magic = "WAZEVO"
	rest, ok := bytes.CutPrefix(file, []byte(magic))
	if !ok || len(rest) < 1 || len(rest) < 1+int(rest[0])+4 {
		return nil
	}
	rest = rest[1+int(rest[0]):]
	functions := uint64(binary.LittleEndian.Uint32(rest))
	if rest = rest[4:]; uint64(len(rest)) < 8*functions+8 {
		return nil
	}
	rest = rest[8*functions:]
	size := binary.LittleEndian.Uint64(rest)
	if rest = rest[8:]; size > uint64(len(rest)) {
		return nil
	}
	return rest[:size]
}

// useShared puts the shared code in place of this process's own copy, if it
// finds one that is the same.
func useShared(from *os.File) error {
	info, err := from.Stat()
	if err != nil || info.Size() == 0 {
		return err
	}
	shared, err := unix.Mmap(int(from.Fd()), 0, int(info.Size()), unix.PROT_READ|unix.PROT_EXEC, unix.MAP_SHARED)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		return nil // this host has no code in shared memory
	}
	if err != nil {
		return fmt.Errorf("map compiled code: %w", err)
	}
	own := ownCode(shared)
	if own == nil {
		return unix.Munmap(shared)
	}
	// What was read for the comparison need not be resident.
	if err := unix.Madvise(shared, unix.MADV_DONTNEED); err != nil {
		return fmt.Errorf("let go of compiled code: %w", err)
	}
	size := uintptr(len(shared))
	if _, err = unix.MremapPtr(unsafe.Pointer(&shared[0]), size, own, size, unix.MREMAP_MAYMOVE|unix.MREMAP_FIXED); err != nil {
		return fmt.Errorf("put shared code in place: %w", err)
	}
	return nil
}

// ownCode is where in this process's executable memory the code lies, or nil.
func ownCode(code []byte) unsafe.Pointer {
	for _, m := range mappings() {
		if m.rights != "r-xp" || m.inode != 0 {
			continue
		}
		region := m.bytes()
		for at := 0; at+len(code) <= len(region); at += os.Getpagesize() {
			if sameCode(region[at:at+len(code)], code) {
				return unsafe.Pointer(&region[at])
			}
		}
	}
	return nil
}

// sameCode compares a page in 64, the first and the last among them. The two
// come from one file, unless that was compiled again meanwhile; had it come
// out differently, all addresses after the difference would have moved. To
// compare every page takes a tenth of a guest's start.
func sameCode(a, b []byte) bool {
	page := os.Getpagesize()
	for at := 0; at < len(a); at += 64 * page {
		if !bytes.Equal(a[at:at+page], b[at:at+page]) {
			return false
		}
	}
	return bytes.Equal(a[len(a)-page:], b[len(b)-page:])
}
