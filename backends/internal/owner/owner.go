// Package owner names what a worker makes on its host outside of its own
// memory, such as control groups and temporary directories, so that a later
// worker can remove what a dead one left and never touches a living one's.
package owner

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// prefix begins each name.
const prefix = "airlock-"

// Owner is one run of one worker.
type Owner struct {
	// space is the pid namespace, since a pid means nothing outside of it.
	space uint64
	pid   int
	// start tells the process from a later one with the same pid.
	start string
}

// This is the running process.
func This() (Owner, error) {
	space, err := pidSpace()
	if err != nil {
		return Owner{}, fmt.Errorf("read own pid namespace: %w", err)
	}
	pid := os.Getpid()
	start := startTime(pid)
	if start == "" {
		return Owner{}, fmt.Errorf("read start time of own process %d: is /proc that of another pid namespace?", pid)
	}
	return Owner{space, pid, start}, nil
}

// Name is a name for something of the owner's; what has no dash.
func (o Owner) Name(what string) string {
	return fmt.Sprintf("%s%d-%d-%s-%s", prefix, o.space, o.pid, o.start, what)
}

// Left reports whether name is that of something whose owner is certainly
// dead. What happens in other pid namespaces cannot be seen, so their workers
// never are.
func (o Owner) Left(name string) bool {
	parts := strings.Split(name, "-")
	if len(parts) != 5 || parts[0]+"-" != prefix {
		return false
	}
	space, err1 := strconv.ParseUint(parts[1], 10, 64)
	pid, err2 := strconv.Atoi(parts[2])
	return err1 == nil && err2 == nil && space == o.space && startTime(pid) != parts[3]
}
