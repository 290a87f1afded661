package forkserver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"airlock/backends/internal/rootfs"

	"github.com/go-json-experiment/json"
	"golang.org/x/sys/unix"
)

// self is the running program, whatever has become of its file.
const self = "/proc/self/exe"

// The launcher's descriptors. It hands the first two on to the template.
const (
	controlFD = 3 + iota
	templateOrderFD
	launcherOrderFD
)

// launchOrder is what a launcher is told.
type launchOrder struct {
	Binds    []string      `json:"binds"`
	Links    []rootfs.Link `json:"links"`
	Devices  []string      `json:"devices"`
	Writable []string      `json:"writable"`
	// Stage is the directory of the guest's code on the host, Inside where it
	// comes to lie.
	Stage    string `json:"stage"`
	Inside   string `json:"inside"`
	Hostname string `json:"hostname"`
	// Program is the template's, with its arguments.
	Program     []string `json:"program"`
	Environment []string `json:"environment"`
}

// launch is the whole life of a launcher.
func launch() int {
	order, err := readLaunchOrder()
	if err == nil {
		err = buildRoot(order)
	}
	var template *os.Process
	if err == nil {
		template, err = startTemplate(order)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "launcher: %v\n", err)
		return 1
	}
	reap(template.Pid)
	return 0
}

func readLaunchOrder() (launchOrder, error) {
	var order launchOrder
	f := os.NewFile(launcherOrderFD, "order")
	if f == nil {
		return order, errors.New("no order: only a worker starts this")
	}
	defer f.Close()
	if err := json.UnmarshalRead(f, &order); err != nil {
		return order, fmt.Errorf("read order: %w", err)
	}
	return order, nil
}

// buildRoot leaves this process, which has a mount namespace of its own, with
// a root of nothing but what a guest may see.
func buildRoot(order launchOrder) error {
	// Not even a guest without a filter could make a user namespace then. The
	// count is this user namespace's; a host that has /proc read-only keeps
	// its own, and the filter is the fence.
	_ = os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0)
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w%s", err, hint(err, os.ReadFile))
	}
	// Over a directory that every host has and nothing is bound from.
	const root = "/sys"
	const few = "size=1m,nr_inodes=4096,mode=0755"
	if err := unix.Mount("tmpfs", root, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, few); err != nil {
		return fmt.Errorf("mount the root: %w", err)
	}
	if err := fill(root, order); err != nil {
		return err
	}
	return enter(root, order.Hostname)
}

// fill puts into the new root what the order names.
func fill(root string, order launchOrder) error {
	for _, path := range order.Binds {
		if err := bind(path, root+path, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV); err != nil {
			return err
		}
	}
	for _, link := range order.Links {
		if err := os.MkdirAll(filepath.Dir(root+link.Path), 0o755); err != nil {
			return fmt.Errorf("make link: %w", err)
		}
		if err := os.Symlink(link.Target, root+link.Path); err != nil {
			return fmt.Errorf("make link: %w", err)
		}
	}
	if err := bind(order.Stage, root+order.Inside, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV); err != nil {
		return err
	}
	for _, device := range order.Devices {
		if err := bind("/dev/"+device, root+"/dev/"+device, unix.MOUNT_ATTR_NOSUID); err != nil {
			return err
		}
	}
	for _, path := range order.Writable {
		if err := os.MkdirAll(root+path, 0o755); err != nil {
			return fmt.Errorf("make directory: %w", err)
		}
	}
	return nil
}

// bind puts a file or directory of the host at a place of the new root, with
// all that is mounted below it.
func bind(path, at string, attributes uint64) error {
	if err := makePlace(path, at); err != nil {
		return fmt.Errorf("make place for %s: %w", path, err)
	}
	if err := unix.Mount(path, at, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("bind %s: %w; guests' users must be able to reach it", path, err)
	}
	set := &unix.MountAttr{Attr_set: attributes}
	if err := unix.MountSetattr(unix.AT_FDCWD, at, unix.AT_RECURSIVE, set); err != nil {
		return fmt.Errorf("protect %s: %w; Linux 5.12 or later is needed", path, err)
	}
	return nil
}

func makePlace(path, at string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return os.MkdirAll(at, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(at, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

// enter makes the new root the only one, and read-only.
func enter(root, hostname string) error {
	if err := os.Chdir(root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("change the root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("drop the host's root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	set := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", 0, set); err != nil {
		return fmt.Errorf("protect the root: %w", err)
	}
	if err := unix.Sethostname([]byte(hostname)); err != nil {
		return fmt.Errorf("set host name: %w", err)
	}
	return nil
}

// startTemplate starts the template and keeps none of its descriptors.
func startTemplate(order launchOrder) (*os.Process, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	control, told := os.NewFile(controlFD, "control"), os.NewFile(templateOrderFD, "order")
	template, err := os.StartProcess(order.Program[0], order.Program, &os.ProcAttr{
		Dir: "/", Env: order.Environment, Files: []*os.File{null, null, os.Stderr, control, told},
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", order.Program[0], err)
	}
	return template, errors.Join(null.Close(), control.Close(), told.Close())
}

// reap buries who dies here until the template does. The kernel then kills
// whatever else is in the namespace.
func reap(template int) {
	for {
		pid, err := unix.Wait4(-1, nil, 0, nil)
		if pid == template || err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
