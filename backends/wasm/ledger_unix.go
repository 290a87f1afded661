//go:build unix

package wasm

import (
	"errors"
	"fmt"
	"os"

	"airlock/backends/internal/wasmguest"

	"golang.org/x/sys/unix"
)

// ledger is memory that a guest's process shares with us.
type ledger struct {
	wasmguest.Ledger
	file   *os.File
	shared []byte
}

func newLedger() (l *ledger, err error) {
	f, err := newShared("ledger")
	if err != nil {
		return nil, err
	}
	l = &ledger{file: f}
	if err = f.Truncate(wasmguest.LedgerSize); err == nil {
		l.shared, err = unix.Mmap(int(f.Fd()), 0, wasmguest.LedgerSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make ledger: %w", err), f.Close())
	}
	l.Ledger = wasmguest.NewLedger(l.shared)
	return l, nil
}

// close frees it; nothing is read of it later.
func (l *ledger) close() {
	_ = unix.Munmap(l.shared)
	_ = l.file.Close()
}
