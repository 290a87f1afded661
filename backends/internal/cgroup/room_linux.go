package cgroup

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Room is how full a group with a memory limit is.
type Room struct {
	// Used leaves out files that are read and not used at the time: the kernel
	// drops those before it refuses memory.
	Used, Limit int64
}

// Rooms are those of the worker's own group and of all above it that can be
// seen and have a limit. Guests' groups are below the worker's, so that what
// guests hold is in them.
func Rooms() ([]Room, error) { return rooms("/proc/self/mountinfo", "/proc/self/cgroup") }

// The names of the files, and the largest limit that is one: version 1 has
// no word for "none" and reads as a number of pages that no machine has.
var (
	roomV1 = roomFiles{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"}
	roomV2 = roomFiles{"memory.max", "memory.current", "inactive_file"}
)

const noLimit = math.MaxInt64 >> 1

type roomFiles struct{ limit, used, idle string }

func rooms(mountinfo, groups string) ([]Room, error) {
	m, err := readMounts(mountinfo, groups)
	if err != nil {
		return nil, err
	}
	dir, files := m.v1[Memory], roomV1
	if dir == "" {
		dir, files = m.v2, roomV2
	}
	var all []Room
	// A group above may count memory where one below does not, and no
	// directory outside of the hierarchy has files of these names.
	for ; len(dir) > 1; dir = filepath.Dir(dir) {
		if room, ok := files.read(dir); ok {
			all = append(all, room)
		}
	}
	return all, nil
}

func (f roomFiles) read(dir string) (Room, bool) {
	limit, ok := readNumber(filepath.Join(dir, f.limit))
	if !ok || limit > noLimit {
		return Room{}, false
	}
	used, ok := readNumber(filepath.Join(dir, f.used))
	return Room{Used: max(0, used-idle(filepath.Join(dir, "memory.stat"), f.idle)), Limit: limit}, ok
}

// readNumber does not count "max" as one.
func readNumber(path string) (int64, bool) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	return n, err == nil
}

func idle(path, name string) int64 {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			if err == nil {
				return n
			}
		}
	}
	return 0
}
