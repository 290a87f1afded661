//go:build unix && !linux

package wasm

import "os"

// self is the file that this program was started from.
func self() string {
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	return path
}
