//go:build unix && !linux

package wasm

import (
	"errors"
	"fmt"
	"os"
)

// newShared makes a file that no name leads to any more.
func newShared(name string) (*os.File, error) {
	f, err := os.CreateTemp("", "airlock-"+name)
	if err != nil {
		return nil, fmt.Errorf("make shared memory: %w", err)
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(fmt.Errorf("make shared memory: %w", err), f.Close())
	}
	return f, nil
}

// freeze does nothing: only our own processes have a descriptor, and a guest's
// module has no way to it.
func freeze(f *os.File) (*os.File, error) { return f, nil }
