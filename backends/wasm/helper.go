package wasm

import (
	"errors"
	"os"

	"airlock/backends/internal/wasmguest"
)

// Helper is the leave to start this program again for a guest. Its zero value
// has none: a program that does not call Main would not know what it was
// started for.
type Helper struct{ path string }

// errNoHelper is what Probe says then.
var errNoHelper = errors.New("this program cannot start itself for a guest: its main must call wasm.Main first")

// Main is the first thing that a program's main does, or a test's TestMain. In
// a process that was started for a guest it does not return.
func Main() Helper {
	if len(os.Args) == 2 && os.Args[1] == wasmguest.Name {
		os.Exit(wasmguest.Main())
	}
	return Helper{path: self()}
}
