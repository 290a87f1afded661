package memory

import (
	"os"
	"slices"
	"strconv"
	"strings"

	"airlock/backends/internal/cgroup"
)

func tight() bool {
	rooms, err := cgroup.Rooms()
	if err == nil && slices.ContainsFunc(rooms, func(r cgroup.Room) bool { return full(r.Limit-r.Used, r.Limit) }) {
		return true
	}
	return hostTight("/proc/meminfo")
}

func hostTight(meminfo string) bool {
	data, err := os.ReadFile(meminfo)
	if err != nil {
		return false
	}
	facts := map[string]int64{}
	for line := range strings.Lines(string(data)) {
		// "MemAvailable:   23735028 kB"
		if fields := strings.Fields(line); len(fields) >= 2 {
			if n, err := strconv.ParseInt(fields[1], 10, 64); err == nil {
				facts[fields[0]] = n
			}
		}
	}
	available, known := facts["MemAvailable:"]
	return known && full(available, facts["MemTotal:"])
}
