package all

import (
	"airlock/backends/forkserver"
	"airlock/backends/wasm"
)

// Self is the leave to start this program again, in each way that a backend
// does. With the zero one those backends are not available.
type Self struct {
	Launcher forkserver.Launcher
	Helper   wasm.Helper
}

// Main is the first thing that a program's main does. In a process that was
// started by a backend it does not return.
func Main() Self { return Self{Launcher: forkserver.Main(), Helper: wasm.Main()} }
