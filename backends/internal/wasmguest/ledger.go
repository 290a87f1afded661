package wasmguest

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"
)

// LedgerSize is that of the memory which a guest's process shares with the
// worker, to tell what it has seen of the guest also when it is killed.
const LedgerSize = 4096

// Ledger is that memory.
type Ledger struct{ words *[3]atomic.Uint64 }

// NewLedger uses the first bytes of memory that is aligned as a page is.
func NewLedger(shared []byte) Ledger {
	_ = binary.NativeEndian.Uint64(shared[16:24]) // long enough
	return Ledger{(*[3]atomic.Uint64)(unsafe.Pointer(&shared[0]))}
}

// Full marks one of two file systems as full or not; DiskFull reports whether
// one is.
func (l Ledger) Full(disk int, full bool) {
	if bit := uint64(1) << disk; full {
		l.words[0].Or(bit)
	} else {
		l.words[0].And(^bit)
	}
}

// DiskFull reports whether a file system is full.
func (l Ledger) DiskFull() bool { return l.words[0].Load() != 0 }

// Grown notes the size of the guest's memory; Peak is the largest.
func (l Ledger) Grown(size uint64) {
	if size > l.words[1].Load() {
		l.words[1].Store(size)
	}
}

// Peak is how large the guest's memory became.
func (l Ledger) Peak() uint64 { return l.words[1].Load() }

// Refused counts a time that the guest's memory could not grow.
func (l Ledger) Refused() { l.words[2].Add(1) }

// Refusals is how often it could not.
func (l Ledger) Refusals() uint64 { return l.words[2].Load() }
