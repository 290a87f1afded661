package wasm

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/windows"
)

// newShared makes a file that goes with its last handle, and that none can be
// opened of beside: a guest's process gets it by inheritance.
func newShared(name string) (*os.File, error) {
	path := filepath.Join(os.TempDir(), "airlock-"+name+"-"+rand.Text())
	wide, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return nil, fmt.Errorf("make shared memory: %w", err)
	}
	const alone = 0
	h, err := windows.CreateFile(wide, windows.GENERIC_READ|windows.GENERIC_WRITE|windows.DELETE, alone, nil,
		windows.CREATE_NEW, windows.FILE_ATTRIBUTE_TEMPORARY|windows.FILE_FLAG_DELETE_ON_CLOSE, 0)
	if err != nil {
		return nil, fmt.Errorf("make shared memory: %w", err)
	}
	return os.NewFile(uintptr(h), name), nil
}

// freeze lets nobody change the file any more: what it returns can only be
// read, whoever inherits it.
func freeze(f *os.File) (*os.File, error) {
	self := windows.CurrentProcess()
	var read windows.Handle
	err := windows.DuplicateHandle(self, windows.Handle(f.Fd()), self, &read, windows.FILE_GENERIC_READ, false, 0)
	if err != nil {
		return f, fmt.Errorf("make %s read-only: %w", f.Name(), err)
	}
	frozen := os.NewFile(uintptr(read), f.Name())
	if err := f.Close(); err != nil {
		return nil, errors.Join(fmt.Errorf("make %s read-only: %w", frozen.Name(), err), frozen.Close())
	}
	return frozen, nil
}
