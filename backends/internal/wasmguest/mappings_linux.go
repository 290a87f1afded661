package wasmguest

import (
	"fmt"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapping is a part of this process's memory.
type mapping struct {
	begin, end uintptr
	rights     string
	inode      uint64
	// own is how much of it is no file's, in KiB.
	own int
}

// mappings are all there are. A host that does not tell has none, which only
// costs memory.
func mappings() (found []mapping) {
	told, _ := os.ReadFile("/proc/self/smaps")
	for line := range strings.Lines(string(told)) {
		if value, ok := strings.CutPrefix(line, "Anonymous:"); ok && len(found) > 0 {
			_, _ = fmt.Sscanf(value, "%d", &found[len(found)-1].own)
			continue
		}
		if first, _, _ := strings.Cut(line, " "); strings.HasSuffix(first, ":") {
			continue
		}
		var m mapping
		var offset, device string
		if n, _ := fmt.Sscanf(line, "%x-%x %s %s %s %d", &m.begin, &m.end, &m.rights, &offset, &device, &m.inode); n == 6 {
			found = append(found, m)
		}
	}
	return found
}

// bytes are what is mapped. It is nothing of the collector's, so its address
// is as good as a pointer.
func (m *mapping) bytes() []byte {
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&m.begin)), m.end-m.begin)
}

// forgetStart lets go of the program's own pages, which are mostly what the
// start of a whole worker has touched. They come back from the file when they
// are used; those that are not a file's any more, as relocated ones, stay.
func forgetStart() {
	for _, m := range mappings() {
		if (m.rights == "r-xp" || m.rights == "r--p") && m.inode != 0 && m.own == 0 {
			_ = unix.Madvise(m.bytes(), unix.MADV_DONTNEED)
		}
	}
}
