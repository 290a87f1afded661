package docker

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"airlock/job"
)

// greeting is what a container's first process says of itself before there is
// a guest, as the kernel shows it to a process.
type greeting struct {
	python string
	// used is the processor time that the process had used.
	used time.Duration
	// kernel is the release that the guest's kernel gives itself.
	kernel string
	// ids are all the users and groups that the process has.
	ids []string
}

// version is that of what is spoken with the first process. first.py has the
// same.
const version = "3"

// noCapabilities is an empty set as the kernel prints it.
const noCapabilities = "0000000000000000"

// readGreeting reads lines of a name, a colon and a value, and compares what
// the kernel says of the process with what it must be.
func readGreeting(text []byte) (greeting, error) {
	said := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		said[name] = strings.TrimSpace(value)
	}
	if said["Airlock"] != version {
		return greeting{}, fmt.Errorf("its first process speaks version %q and this worker %q, so the image or the worker is an old one",
			job.Printable(said["Airlock"], 20), version)
	}
	var errs []error
	used, err := strconv.ParseUint(said["CPU"], 10, 40)
	if err != nil {
		errs = append(errs, fmt.Errorf("the first process has used %q of processor time, want microseconds", job.Printable(said["CPU"], 40)))
	}
	for name, must := range map[string]string{
		"NoNewPrivs": "1", "Seccomp": "2",
		"CapInh": noCapabilities, "CapPrm": noCapabilities, "CapEff": noCapabilities, "CapBnd": noCapabilities, "CapAmb": noCapabilities,
	} {
		if said[name] != must {
			errs = append(errs, fmt.Errorf("the container's %s is %q, want %s", name, job.Printable(said[name], 40), must))
		}
	}
	return greeting{
		python: job.Printable(said["Python"], 20), kernel: job.Printable(said["Kernel"], 100),
		used: time.Duration(used) * time.Microsecond,
		ids:  strings.Fields(said["Uid"] + " " + said["Gid"]),
	}, errors.Join(errs...)
}

// check sees that the process has the user and group it was given, in all of
// their four forms.
func (g greeting) check(uid int) error {
	if len(g.ids) != 8 || slices.ContainsFunc(g.ids, func(id string) bool { return id != strconv.Itoa(uid) }) {
		return fmt.Errorf("the container's users and groups are %s, want all to be %d", job.Printable(strings.Join(g.ids, " "), 100), uid)
	}
	return nil
}
