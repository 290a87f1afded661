package bubblewrap

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"airlock/backends"
	"airlock/backends/internal/guestproc"
	"airlock/backends/internal/hostids"
	"airlock/backends/internal/interpreter"
	"airlock/backends/internal/seccomp"
	"airlock/job"
)

// ready is what a prepared backend has. It does not change.
type ready struct {
	bwrap   string
	version string
	python  interpreter.Interpreter
	// stage is the directory with the guest's code.
	stage string
	// layout are the arguments that are the same for every guest.
	layout []string
	filter []byte
	fence  guestproc.Fence
	// ids gives guests their users; nil when we are not root.
	ids *hostids.IDs
}

func prepare(ctx context.Context, config Config) (*ready, error) {
	r := &ready{}
	var err error
	var switches []string
	if r.bwrap, r.version, switches, err = findBwrap(ctx, config.Bwrap); err != nil {
		return nil, err
	}
	if r.filter, err = seccomp.Program(runtime.GOARCH); err != nil {
		return nil, err
	}
	if os.Geteuid() == 0 {
		if r.ids, err = hostids.Open(config.FirstUID, hostids.Started); err != nil {
			return nil, err
		}
	}
	if r.python, err = r.findPython(ctx, config.Python); err != nil {
		return nil, err
	}
	r.fence = guestproc.NewFence(ownProcesses, config.Cores)
	r.fence.Also = map[job.LimitName]string{job.LimitDisk: "size of tmpfs"}
	if r.fence.Err != nil {
		config.Log.Warn().Err(r.fence.Err).Msg("guests' memory, processes and processor time cannot be limited")
	}
	if r.stage, err = interpreter.Stage(ctx, r.python); err != nil {
		return nil, err
	}
	if r.layout, err = layout(r.python, r.stage, switches); err != nil {
		return nil, errors.Join(err, os.RemoveAll(r.stage))
	}
	return r, nil
}

// findBwrap returns the program, its version, and those of our optional
// switches that it knows.
func findBwrap(ctx context.Context, configured string) (path, version string, switches []string, err error) {
	if path = configured; path == "" {
		if path, err = exec.LookPath("bwrap"); err != nil {
			return "", "", nil, errors.New("bwrap is not in PATH: install bubblewrap, for example with apt-get install bubblewrap")
		}
	}
	out, err := run(ctx, path, "--version")
	if err != nil {
		return "", "", nil, fmt.Errorf("%w: is bubblewrap installed? apt-get install bubblewrap does that", err)
	}
	help, err := run(ctx, path, "--help")
	if err != nil {
		return "", "", nil, err
	}
	for _, needed := range []string{"--json-status-fd", "--args", "--size", "--perms", "--clearenv", "--seccomp", "--remount-ro"} {
		if !strings.Contains(help, needed+" ") && !strings.Contains(help, needed+"\n") {
			return "", "", nil, fmt.Errorf("%s has no %s: install bubblewrap 0.5 or later", job.Printable(out, 40), needed)
		}
	}
	if strings.Contains(help, "--disable-userns") {
		switches = append(switches, "--disable-userns")
	}
	return path, strings.TrimSpace(out), switches, nil
}

func run(ctx context.Context, path, arg string) (string, error) {
	cmd := exec.CommandContext(ctx, path, arg)
	var out bytes.Buffer
	cmd.Env, cmd.Dir, cmd.Stdout = []string{}, "/", &out
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("run %s %s: %w", path, arg, err)
	}
	return out.String(), nil
}

// findPython asks as the user that guests will be, since what root can read
// need not be readable by them.
func (r *ready) findPython(ctx context.Context, configured string) (interpreter.Interpreter, error) {
	if r.ids == nil {
		return interpreter.Find(ctx, configured, nil)
	}
	id, back, err := r.ids.Take()
	if err != nil {
		return interpreter.Interpreter{}, err
	}
	defer back()
	return interpreter.Find(ctx, configured, &syscall.SysProcAttr{Credential: hostids.Credential(id)})
}

func (r *ready) capabilities() backends.Capabilities {
	caps := backends.Capabilities{
		Offer: job.Offer{
			Backend: Name, Version: r.version, Isolation: job.IsolationStrong,
			OS: runtime.GOOS, Arch: runtime.GOARCH, Python: r.python.Version,
		},
		Isolated: job.Isolated{
			Level: job.IsolationStrong, Version: r.version, Kernel: guestproc.Kernel(), Python: r.python.Version,
		},
	}
	r.fence.Describe(&caps)
	return caps
}
