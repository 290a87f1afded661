package wasmguest

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// RemoveTree removes the directory and all below it, by their names where the
// system lacks the call that os.RemoveAll makes, as Wine does.
func RemoveTree(dir string) error {
	if os.RemoveAll(dir) == nil {
		return nil
	}
	var paths []string
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		paths = append(paths, path)
		return err
	})
	if err != nil {
		return err
	}
	for _, path := range slices.Backward(paths) {
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return nil
}
