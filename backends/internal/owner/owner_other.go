//go:build !linux

package owner

import "os"

func pidSpace() (uint64, error) { return 0, nil }

// startTime cannot be read here, so that a reused pid keeps what a dead worker
// left: "0" for a process that exists, "" for one that does not.
func startTime(pid int) string {
	if !alive(pid) && pid != os.Getpid() {
		return ""
	}
	return "0"
}
