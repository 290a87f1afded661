package docker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"airlock/backends"
	"airlock/backends/internal/seccomp"
	"airlock/job"

	"github.com/docker/docker/api/types/system"
)

// facts are what was found out about the engine. They do not change.
type facts struct {
	version string
	kernel  string
	arch    string
	cgroup  string
	// runtime is the one that starts guests.
	runtime string
	// started is what the engine runs for it, where it is not the default.
	started string
	// rations says that the engine's kernel can bound the rate of processor
	// time.
	rations bool
	// profile is the system-call filter, netProfile that of guests that have
	// a network.
	profile, netProfile string
	images              runners
	// network is the one that guests may have; nil means none. Only a probe
	// finds one.
	network *walled
}

// ask finds out what the engine is and has.
func (r *ready) ask(ctx context.Context) (*facts, error) {
	info, err := r.engine.info(ctx)
	if err != nil {
		return nil, err
	}
	f := &facts{}
	if err := f.takeInfo(info); err != nil {
		return nil, err
	}
	if err := f.takeRuntime(info, r.config.Runtime); err != nil {
		return nil, err
	}
	if f.images, err = r.findImages(ctx, f.arch); err != nil {
		return nil, err
	}
	plain, err := seccomp.Profile(f.arch)
	if err != nil {
		return nil, err
	}
	open, err := seccomp.NetworkProfile(f.arch)
	f.profile, f.netProfile = string(plain), string(open)
	return f, err
}

func (f *facts) takeInfo(info system.Info) error {
	f.version, f.kernel, f.arch = job.Printable(info.ServerVersion, 40), job.Printable(info.KernelVersion, 100), goarch(info.Architecture)
	f.cgroup, f.rations = "v"+job.Printable(info.CgroupVersion, 4), info.CPUCfsQuota
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

// takeRuntime sees that the engine knows the runtime.
func (f *facts) takeRuntime(info system.Info, wanted string) error {
	f.runtime = job.Printable(info.DefaultRuntime, 40)
	if wanted == "" {
		return nil
	}
	f.runtime, f.started = wanted, startedBy(info, wanted)
	if _, ok := info.Runtimes[wanted]; ok {
		return nil
	}
	known := job.Printable(strings.Join(slices.Sorted(maps.Keys(info.Runtimes)), ", "), 200)
	return fmt.Errorf("the engine has no runtime %s, only %s: install it and tell the engine, with runtimes in its daemon.json or --add-runtime",
		job.Printable(wanted, 40), known)
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

// capabilities are those of a backend whose probe went well.
func (b *Backend) capabilities(f *facts) backends.Capabilities {
	standard := f.images[0]
	return backends.Capabilities{
		Offer: job.Offer{
			Backend: b.name, Version: "docker " + f.version, Isolation: b.level, OS: "linux", Arch: f.arch,
			Python: standard.about.python, Limits: job.KernelLimits(), Images: f.images.names(), Network: f.network != nil,
		},
		Isolated: b.isolated(f, standard, standard.about, ""),
	}
}

// told is what is known of a guest once it has begun: what it said of itself,
// and what counts its processor time.
type told struct {
	greeting
	counter string
}

// isolated are the facts of a guest with that image and network.
func (b *Backend) isolated(f *facts, im *runner, about told, network string) job.Isolated {
	kernel := f.kernel
	if b.level == job.IsolationVM {
		kernel = about.kernel
	}
	by := map[job.LimitName]string{}
	for _, name := range job.KernelLimits() {
		by[name] = held[name]
	}
	by[job.LimitCPU] = about.counter
	return job.Isolated{
		Level: b.level, Version: "docker " + f.version, Kernel: kernel, Cgroup: f.cgroup, Python: about.python,
		Image: im.id, Runtime: f.runtime, Network: network, Limits: by,
	}
}
