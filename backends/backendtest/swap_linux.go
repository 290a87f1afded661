package backendtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"airlock/job"
)

// swapStory looks at the control group of a live guest, since most hosts of
// tests have no swap that a guest could be seen to fill.
func swapStory() story {
	return story{
		name: "memory limit: swap is part of it", rows: "RX3", enforce: []job.LimitName{job.LimitMemory},
		code: helped("mark()\nawait look()\nos._exit(0)"),
		arrange: func(s *stage) {
			s.tools["look"] = func([]byte) any {
				if dir := s.guestDir(); dir != "" {
					if why := swaps(dir); why != "" {
						s.Error(why)
					}
				}
				return nil
			}
		},
		check: exited(0),
	}
}

// swaps says how the process could hold more than its memory limit in swap.
func swaps(dir string) string {
	groups := groupsIn(dir)
	if path, ok := groups["memory"]; ok {
		group := filepath.Join("/sys/fs/cgroup/memory", path)
		memory, both := contents(group, "memory.limit_in_bytes"), contents(group, "memory.memsw.limit_in_bytes")
		if memory == "" || (both != memory && contents(group, "memory.swappiness") != "0") {
			return fmt.Sprintf("%s: memory is %q, with swap %q: want the same for both", group, memory, both)
		}
		return ""
	}
	group := filepath.Join("/sys/fs/cgroup", groups["unified"])
	if got := contents(group, "memory.swap.max"); got != "0" && got != "" || contents(group, "memory.max") == "" {
		return fmt.Sprintf("%s: swap is %q beside memory of %q, want none", group, got, contents(group, "memory.max"))
	}
	return ""
}

func contents(dir, file string) string {
	text, _ := os.ReadFile(filepath.Join(dir, file))
	return strings.TrimSpace(string(text))
}
