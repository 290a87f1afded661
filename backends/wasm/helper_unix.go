//go:build unix

package wasm

import (
	"os"

	"airlock/backends/internal/wasmguest"
)

// Main is the first thing that a program's main does, or a test's TestMain. In
// a process that was started for a guest it does not return.
func Main() Helper {
	if len(os.Args) == 2 && os.Args[1] == wasmguest.Name {
		os.Exit(wasmguest.Main())
	}
	return Helper{path: self()}
}
