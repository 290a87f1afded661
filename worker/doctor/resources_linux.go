package doctor

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
)

// needed are the controllers that the guests' limits are held by.
var needed = []string{"cpu", "memory", "pids"}

// mounted is where control groups are: v2 is the unified tree, v1 the trees by
// controller. Either may be missing.
func (h Host) mounted() (v2 string, v1 map[string]string) {
	v1 = map[string]string{}
	mounts, _ := h.read("proc/mounts")
	for line := range strings.Lines(mounts) {
		f := strings.Fields(line)
		switch {
		case len(f) < 4:
		case f[2] == "cgroup2":
			v2 = f[1]
		case f[2] == "cgroup":
			for _, option := range strings.Split(f[3], ",") {
				v1[option] = f[1]
			}
		}
	}
	return v2, v1
}

// unified returns the v2 tree if the controllers are in it.
func (h Host) unified() (root string, controllers []string) {
	v2, _ := h.mounted()
	text, _ := h.read(path.Join(v2, "cgroup.controllers"))
	return v2, strings.Fields(text)
}

// cgroups: without them nothing bounds what a guest takes.
func cgroups(_ context.Context, h Host) []Finding {
	if !h.exists("proc/mounts") {
		return unchecked("/proc/mounts cannot be read")
	}
	v2, controllers := h.unified()
	_, v1 := h.mounted()
	var missing []string
	old := false
	for _, name := range needed {
		_, there := v1[name]
		old = old || there
		if !there && (v2 == "" || !slices.Contains(controllers, name)) {
			missing = append(missing, name)
		}
	}
	switch {
	case len(missing) > 0:
		return found(Warning, fmt.Sprintf("no control group for %s: backends that need it are not offered", strings.Join(missing, ", ")),
			"mount cgroup v2 at /sys/fs/cgroup, with these controllers in the kernel")
	case old:
		return found(Info, "control groups are version 1: a guest's processes are killed one by one, and peaks are sampled",
			"boot with systemd.unified_cgroup_hierarchy=1")
	}
	return nil
}

// delegation: a worker that is not root can make groups only in one that is
// given to it.
func delegation(_ context.Context, h Host) []Finding {
	v2, controllers := h.unified()
	if h.UID == 0 || len(controllers) == 0 {
		return nil
	}
	own, ok := h.ownGroup()
	if !ok {
		return unchecked("the group of this process is not known")
	}
	info, ok := h.stat(path.Join(v2, own))
	if !ok {
		return unchecked("the group of this process cannot be seen")
	}
	if uid, _, ok := owner(info); ok && uid == h.UID {
		return nil
	}
	return found(Warning, "this user may make no control groups below "+show(own)+": only the engine's containers are bounded",
		"start the worker as a systemd service with Delegate=yes, or by systemd-run --user --scope -p Delegate=yes")
}

// ownGroup is this process's group in the v2 tree.
func (h Host) ownGroup() (string, bool) {
	text, _ := h.read("proc/self/cgroup")
	for line := range strings.Lines(text) {
		if own, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			return own, true
		}
	}
	return "", false
}

// swap: memory that is swapped out escapes a limit that does not count it, and
// lies on a disk after the guest.
func swap(_ context.Context, h Host) []Finding {
	text, ok := h.read("proc/swaps")
	if !ok {
		return unchecked("/proc/swaps cannot be read")
	}
	if len(strings.Split(text, "\n")) < 2 {
		return nil
	}
	_, v1 := h.mounted()
	if tree, old := v1["memory"]; old {
		if h.exists(path.Join(tree, "memory.memsw.limit_in_bytes")) {
			return nil
		}
		return found(Warning, "there is swap, and the kernel does not count it: a guest's memory limit does not bound what it swaps",
			"boot with swapaccount=1, or swapoff -a")
	}
	v2, _ := h.unified()
	own, _ := h.ownGroup()
	switch {
	case h.exists(path.Join(v2, own, "memory.swap.max")):
		return nil
	case own == "" || own == "/":
		// The root group has no limits, so it does not show whether others do.
		return unchecked("there is swap, and this process is in the root group, which does not show whether swap is counted")
	}
	return found(Warning, "there is swap, and the kernel does not count it: a guest's memory limit does not bound what it swaps",
		"use a kernel with CONFIG_MEMCG and swap accounting, or swapoff -a")
}
