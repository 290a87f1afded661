package bubblewrap

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"airlock/backends"
	"airlock/backends/internal/guestproc"
)

// probe runs a guest with the smallest program and looks at it from outside.
func (r *ready) probe(ctx context.Context) error {
	posture := errors.New("the guest said nothing")
	err := guestproc.Probe(ctx, func(ctx context.Context, task backends.Task) (backends.Outcome, error) {
		return r.run(ctx, task, func(pid int) { posture = checkPosture(pid) })
	})
	if err != nil {
		return err
	}
	return posture
}

// checkPosture compares what the kernel says of the live guest with what it
// must be.
func checkPosture(pid int) error {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return fmt.Errorf("look at the guest from outside: %w", err)
	}
	var errs []error
	want := map[string]string{
		"NoNewPrivs": "1", "Seccomp": "2",
		"CapInh": none, "CapPrm": none, "CapEff": none, "CapBnd": none, "CapAmb": none,
	}
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
	return errors.Join(append(errs, checkNamespaces(pid))...)
}

// none is an empty set of capabilities as the kernel prints it.
const none = "0000000000000000"

func checkNamespaces(pid int) error {
	var errs []error
	for _, name := range []string{"cgroup", "ipc", "mnt", "net", "pid", "user", "uts"} {
		theirs, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, name))
		if err != nil {
			errs = append(errs, fmt.Errorf("look at the guest from outside: %w", err))
			continue
		}
		if ours, err := os.Readlink("/proc/self/ns/" + name); err != nil || ours == theirs {
			errs = append(errs, fmt.Errorf("the guest shares the host's %s namespace", name))
		}
	}
	return errors.Join(errs...)
}
