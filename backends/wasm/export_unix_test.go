//go:build unix

package wasm

// Wine reports whether this is Wine.
func Wine() bool { return false }

// Here is the config with which guests run here.
func Here(c Config) Config { return c }
