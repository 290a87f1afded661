//go:build !linux

package doctor

// systemRoot is where the file system begins.
const systemRoot = "/"

// systemChecks are none here yet: what isolates on this system has facts of
// its own.
func systemChecks() []check { return nil }
