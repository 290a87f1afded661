//go:build unix

package wasmguest

import "os"

// RemoveTree removes the directory and all below it.
func RemoveTree(dir string) error { return os.RemoveAll(dir) }
