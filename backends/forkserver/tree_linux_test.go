package forkserver_test

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"airlock/backends/forkserver"
)

// tree are the processes of a backend with one template.
type tree struct{ launcher, template int }

// treeOf finds them.
func treeOf(t testing.TB, b *forkserver.Backend) tree {
	t.Helper()
	launchers := b.Launchers()
	if len(launchers) != 1 {
		t.Fatalf("got launchers %v, want one", launchers)
	}
	return treeAt(t, launchers[0])
}

func treeAt(t testing.TB, launcher int) tree {
	t.Helper()
	found := tree{launcher: launcher}
	until(t, "the template is there", func() bool {
		children := childrenOf(launcher)
		if len(children) == 0 {
			return false
		}
		found.template = children[0]
		return true
	})
	return found
}

// slots are those of the template that live.
func (t tree) slots() []int { return childrenOf(t.template) }

// guests are the main processes of the guests that live.
func (t tree) guests() []int {
	var found []int
	for _, slot := range t.slots() {
		for _, child := range childrenOf(slot) {
			if numbers := strings.Fields(statusOf(child)["NSpid"]); len(numbers) > 0 && numbers[len(numbers)-1] != "1" {
				found = append(found, child)
			}
		}
	}
	return found
}

// childrenOf lists a process's children, the dead ones left out.
func childrenOf(pid int) []int {
	var found []int
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		data, _ := os.ReadFile(list)
		for _, word := range strings.Fields(string(data)) {
			child, err := strconv.Atoi(word)
			if state := statusOf(child)["State"]; err == nil && state != "" && !strings.HasPrefix(state, "Z") {
				found = append(found, child)
			}
		}
	}
	slices.Sort(found)
	return found
}

// descendants are all below a process.
func descendants(pid int) []int {
	var found []int
	for _, child := range childrenOf(pid) {
		found = append(append(found, child), descendants(child)...)
	}
	return found
}

// zombies are the dead below a process that nobody has waited for.
func zombies(pid int) []int {
	var found []int
	for _, below := range append(descendants(pid), pid) {
		lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", below))
		for _, list := range lists {
			data, _ := os.ReadFile(list)
			for _, word := range strings.Fields(string(data)) {
				if child, err := strconv.Atoi(word); err == nil && strings.HasPrefix(statusOf(child)["State"], "Z") {
					found = append(found, child)
				}
			}
		}
	}
	return found
}

func statusOf(pid int) map[string]string {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	fields := map[string]string{}
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(line, ":")
		fields[name] = strings.TrimSpace(value)
	}
	return fields
}

// alive reports whether the process runs.
func alive(pid int) bool {
	state := statusOf(pid)["State"]
	return state != "" && !strings.HasPrefix(state, "Z")
}

// groups are the control groups with a name that has part in it.
func groups(part string) []string {
	var found []string
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && strings.Contains(entry.Name(), part) && strings.HasPrefix(entry.Name(), "airlock-") {
			found = append(found, path)
		}
		return nil
	})
	return found
}

// groupsOf has the process's group for each controller, as directories.
func groupsOf(t testing.TB, pid int) []string {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for line := range strings.Lines(string(data)) {
		if name := filepath.Base(strings.TrimSpace(line)); strings.HasPrefix(name, "airlock-") {
			for _, dir := range groups(name) {
				found[dir] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// descriptors counts this process's.
func descriptors(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
