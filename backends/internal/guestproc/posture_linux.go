package guestproc

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"sync"
)

// CheckPosture compares what the kernel says of the live guest with what it
// must be. also are further fields of its status, with their values.
func CheckPosture(pid int, also map[string]string) error {
	return errors.Join(CheckRights(pid, also), CheckNamespaces(pid))
}

// CheckRights is the part of CheckPosture about ids, capabilities and the
// filter.
func CheckRights(pid int, also map[string]string) error {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return fmt.Errorf("look at the guest from outside: %w", err)
	}
	var errs []error
	want := map[string]string{
		"NoNewPrivs": "1", "Seccomp": "2",
		"CapInh": none, "CapPrm": none, "CapEff": none, "CapBnd": none, "CapAmb": none,
	}
	maps.Copy(want, also)
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		if must, ok := want[name]; ok && value == must {
			delete(want, name)
		}
		if ids := strings.Fields(value); (name == "Uid" || name == "Gid") && (len(ids) == 0 || ids[0] == "0") {
			errs = append(errs, fmt.Errorf("the guest's %s on the host is 0", name))
		}
	}
	for name, must := range want {
		errs = append(errs, fmt.Errorf("the guest's %s is not %s", name, must))
	}
	return errors.Join(errs...)
}

// none is an empty set of capabilities as the kernel prints it.
const none = "0000000000000000"

// Namespaces are the kinds that a guest has of its own.
func Namespaces() []string { return []string{"cgroup", "ipc", "mnt", "net", "pid", "user", "uts"} }

// ownNamespaces are those that this process is in, by kind.
var ownNamespaces = sync.OnceValue(func() map[string]string {
	own := map[string]string{}
	for _, name := range Namespaces() {
		own[name], _ = os.Readlink("/proc/self/ns/" + name)
	}
	return own
})

// CheckNamespaces is the other part: that the process shares none of ours.
func CheckNamespaces(pid int) error {
	var errs []error
	for _, name := range Namespaces() {
		theirs, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, name))
		if err != nil {
			errs = append(errs, fmt.Errorf("look at the guest from outside: %w", err))
		} else if ours := ownNamespaces()[name]; ours == "" || ours == theirs {
			errs = append(errs, fmt.Errorf("the guest shares the host's %s namespace", name))
		}
	}
	return errors.Join(errs...)
}
