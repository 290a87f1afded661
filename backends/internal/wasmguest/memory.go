package wasmguest

import (
	"fmt"

	"github.com/tetratelabs/wazero/experimental"
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
	whole, err := reserve(int(min(most, a.limit)))
	if err != nil {
		panic(fmt.Errorf("reserve the guest's memory: %w", err))
	}
	a.last = &memory{whole: whole, ledger: a.ledger}
	return a.last
}

// Reallocate implements experimental.LinearMemory, as does Free.
func (m *memory) Reallocate(size uint64) []byte {
	if size > uint64(len(m.whole)) || commit(m.whole[:size]) != nil {
		m.ledger.Refused()
		return nil
	}
	m.ledger.Grown(size)
	return m.whole[:size]
}

func (m *memory) Free() { unreserve(m.whole) }
