//go:build unix && !linux

package guestproc

import "fmt"

// wrap has a shell set the bounds, since only a process itself can, and then
// become the program. The address space is not bounded: macOS ignores that.
func (b Bounds) wrap(path string, args []string) (string, []string) {
	script := fmt.Sprintf(`umask 077 && ulimit -c 0 && ulimit -n %d && ulimit -t %d && ulimit -f %d && exec "$@"`,
		openFiles, b.CPU+1, b.File/512)
	return "/bin/sh", append([]string{"sh", "-c", script, "sh", path}, args[1:]...)
}
