package bubblewrap

import (
	"strconv"
	"strings"

	"airlock/backends/internal/interpreter"
	"airlock/backends/internal/rootfs"
)

// layout is what bwrap is told for every guest but the sizes: see the
// package's comment for what it comes to.
func layout(python interpreter.Interpreter, stage string, switches []string) ([]string, error) {
	id := strconv.Itoa(rootfs.InsideID)
	args := append([]string{
		// --unshare-all only tries the user namespace, so it is named too.
		"--unshare-all", "--unshare-user", "--cap-drop", "ALL",
		"--uid", id, "--gid", id, "--hostname", rootfs.Hostname,
		"--die-with-parent", "--new-session", "--clearenv",
	}, switches...)
	tree, err := rootfs.New(python)
	if err != nil {
		return nil, err
	}
	for _, variable := range tree.Environment {
		name, value, _ := strings.Cut(variable, "=")
		args = append(args, "--setenv", name, value)
	}
	for _, path := range tree.Binds {
		args = append(args, "--ro-bind", path, path)
	}
	for _, link := range tree.Links {
		args = append(args, "--symlink", link.Target, link.Path)
	}
	args = append(args, "--ro-bind", stage, rootfs.Inside, "--dir", "/dev")
	for _, device := range rootfs.Devices() {
		args = append(args, "--dev-bind", "/dev/"+device, "/dev/"+device)
	}
	return args, nil
}
