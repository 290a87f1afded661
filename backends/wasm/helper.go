package wasm

import "errors"

// Helper is the leave to start this program again for a guest. Its zero value
// has none: a program that does not call Main would not know what it was
// started for.
type Helper struct{ path string }

// errNoHelper is what Probe says then.
var errNoHelper = errors.New("this program cannot start itself for a guest: its main must call wasm.Main first")
