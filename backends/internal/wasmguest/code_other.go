//go:build !linux

package wasmguest

import "os"

// shareCode does nothing here: each process has a copy of the code.
func shareCode(*os.File, string) error { return nil }

func useShared(*os.File) error { return nil }

// forgetStart does nothing here.
func forgetStart() {}
