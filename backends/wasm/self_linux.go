package wasm

// self is the running program, whatever has become of its file.
func self() string { return "/proc/self/exe" }
