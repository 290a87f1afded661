package wasm

import (
	"errors"
	"fmt"
	"os"

	"airlock/backends/internal/wasmguest"
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
		l.shared, err = wasmguest.Map(f, true)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make ledger: %w", err), f.Close())
	}
	l.Ledger = wasmguest.NewLedger(l.shared)
	return l, nil
}

// close frees it; nothing is read of it later.
func (l *ledger) close() {
	wasmguest.Unmap(l.shared)
	_ = l.file.Close()
}
