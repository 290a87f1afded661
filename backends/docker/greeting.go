package docker

import (
	"errors"
	"fmt"
	"strings"

	"airlock/job"
)

// greeting is what a container's first process says of itself before there is
// a guest, as the kernel shows it to a process.
type greeting struct{ python string }

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
	var errs []error
	for name, must := range map[string]string{
		"NoNewPrivs": "1", "Seccomp": "2",
		"CapInh": noCapabilities, "CapPrm": noCapabilities, "CapEff": noCapabilities, "CapBnd": noCapabilities, "CapAmb": noCapabilities,
	} {
		if said[name] != must {
			errs = append(errs, fmt.Errorf("the container's %s is %q, want %s", name, job.Printable(said[name], 40), must))
		}
	}
	for _, name := range []string{"Uid", "Gid"} {
		for id := range strings.FieldsSeq(said[name]) {
			if id != fmt.Sprint(uid) {
				errs = append(errs, fmt.Errorf("the container's %s is %s, want %d", name, job.Printable(id, 40), uid))
			}
		}
	}
	return greeting{python: job.Printable(said["Python"], 20)}, errors.Join(errs...)
}
