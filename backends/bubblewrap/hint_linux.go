package bubblewrap

import (
	"strings"

	"airlock/backends/internal/guestproc"
)

// hint says what to do about what bwrap said, or nothing.
func hint(said string, read func(path string) ([]byte, error)) string {
	has := func(parts ...string) bool {
		for _, part := range parts {
			if strings.Contains(said, part) {
				return true
			}
		}
		return false
	}
	switch {
	case has("namespace", "uid map", "RTM_NEWADDR", "RTM_NEWLINK", "loopback"):
		return guestproc.NamespaceHint(read)
	case has("Can't find source path", "Can't bind mount", "Can't get type of source"):
		return "; the user that guests run as must be able to reach this path"
	}
	return ""
}
