//go:build unix && !linux

package wasmguest

// crash is the exit code of a guest that crashed, as shells have it.
func crash(abort bool) int {
	if abort {
		return 128 + 6
	}
	return 128 + 11
}
