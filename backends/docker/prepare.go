package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"airlock/backends"
	"airlock/backends/internal/owner"
	"airlock/backends/internal/seccomp"
	"airlock/job"

	"github.com/docker/docker/api/types/system"
)

// ready is what a prepared backend has. It does not change.
type ready struct {
	config Config
	engine *engine
	// image is the ID of the guests'.
	image   string
	version string
	kernel  string
	arch    string
	cgroup  string
	profile string
	// rations says that the engine's kernel can bound the rate of processor
	// time.
	rations bool
	owner   owner.Owner
	// hostID tells this worker's host from others that use the engine.
	hostID string
	shared *shared
}

func prepare(ctx context.Context, config Config, all *shared) (*ready, error) {
	r := &ready{config: config, shared: all}
	var err error
	if r.owner, err = owner.This(); err != nil {
		return nil, err
	}
	if r.hostID, err = hostID(); err != nil {
		return nil, err
	}
	if r.engine, err = connect(ctx, config.Host); err != nil {
		return nil, err
	}
	if err := r.ask(ctx); err != nil {
		return nil, errors.Join(err, r.engine.close())
	}
	return r, nil
}

// ask finds out what the engine and the image are.
func (r *ready) ask(ctx context.Context) error {
	info, err := r.engine.info(ctx)
	if err != nil {
		return err
	}
	if err := r.takeInfo(info); err != nil {
		return err
	}
	found, err := r.engine.image(ctx, r.config.Images[0])
	if err != nil {
		return err
	}
	if arch := goarch(found.Architecture); found.Os != "linux" || arch != r.arch {
		return fmt.Errorf("the image %s is for %s/%s, the engine runs linux/%s: make the image on or for that architecture",
			job.Printable(r.config.Images[0], 100), job.Printable(found.Os, 20), job.Printable(arch, 20), r.arch)
	}
	r.image = found.ID
	profile, err := seccomp.Profile(r.arch)
	r.profile = string(profile)
	return err
}

func (r *ready) takeInfo(info system.Info) error {
	r.version, r.kernel, r.arch = job.Printable(info.ServerVersion, 40), job.Printable(info.KernelVersion, 100), goarch(info.Architecture)
	r.cgroup, r.rations = "v"+job.Printable(info.CgroupVersion, 4), info.CPUCfsQuota
	switch {
	case info.OSType != "linux":
		return fmt.Errorf("the engine runs %s containers: switch it to Linux containers", job.Printable(info.OSType, 20))
	case !info.MemoryLimit || !info.SwapLimit || !info.PidsLimit:
		return errors.New("the engine cannot limit memory, swap and processes: see the warnings of docker info, and boot with swapaccount=1 if it has no swap limit")
	}
	for _, option := range info.SecurityOptions {
		if strings.Contains(option, "name=seccomp") {
			return nil
		}
	}
	return errors.New("the engine was built without system-call filters: install one with seccomp")
}

// goarch is Go's name of what the engine or an image calls an architecture.
func goarch(name string) string {
	switch name {
	case "x86_64":
		return "amd64"
	case "aarch64":
		return "arm64"
	}
	return name
}

// hostID is the same for all workers of a host until it is booted anew, also
// for those in containers.
func hostID() (string, error) {
	if id, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		return strings.TrimSpace(string(id)), nil
	}
	name, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("name this host: %w", err)
	}
	return name, nil
}

// held says by what each limit is enforced.
var held = map[job.LimitName]string{
	job.LimitCPU:       "container's processor time, watched",
	job.LimitMemory:    "engine's limit on memory and swap",
	job.LimitProcesses: "engine's limit on pids",
	job.LimitDisk:      "size of tmpfs",
}

func checkEnforce(enforce []job.LimitName) error {
	for _, name := range enforce {
		if held[name] == "" {
			return fmt.Errorf("%w: %s: the backend does not know it", backends.ErrUnenforceable, job.Printable(string(name), 40))
		}
	}
	return nil
}

func (r *ready) capabilities(about greeting) backends.Capabilities {
	version := "docker " + r.version
	caps := backends.Capabilities{
		Offer: job.Offer{
			Backend: Name, Version: version, Isolation: job.IsolationStrong, OS: "linux", Arch: r.arch,
			Python: about.python, Limits: job.KernelLimits(), Images: []string{r.image},
		},
		Isolated: job.Isolated{
			Level: job.IsolationStrong, Version: version, Kernel: r.kernel, Cgroup: r.cgroup, Python: about.python,
			Limits: map[job.LimitName]string{},
		},
	}
	for _, name := range job.KernelLimits() {
		caps.Isolated.Limits[name] = held[name]
	}
	return caps
}
