package wasm

import "os"

// self is the file that this program was started from, which the system keeps
// from being changed as long as it runs.
func self() string {
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	return path
}
