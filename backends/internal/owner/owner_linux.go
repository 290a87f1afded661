package owner

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

func pidSpace() (uint64, error) {
	info, err := os.Stat("/proc/self/ns/pid")
	if err != nil {
		return 0, err
	}
	return info.Sys().(*syscall.Stat_t).Ino, nil
}

// startTime is the 22nd field of /proc/<pid>/stat, or "" without the process.
func startTime(pid int) string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	// The second field is the command in parentheses and may hold anything.
	stat := string(data)
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return ""
	}
	return fields[19]
}
