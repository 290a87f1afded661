package forkserver

import (
	"context"
	"encoding/hex"
	"errors"
	"os"
	"runtime"
	"slices"
	"syscall"

	"airlock/backends"
	"airlock/backends/internal/guestproc"
	"airlock/backends/internal/hostids"
	"airlock/backends/internal/interpreter"
	"airlock/backends/internal/rootfs"
	"airlock/backends/internal/seccomp"
	"airlock/job"
)

// ready is what a prepared backend has.
type ready struct {
	config Config
	python interpreter.Interpreter
	// stage is the directory with the guest's code.
	stage  string
	launch launchOrder
	filter string // in hexadecimal
	fence  guestproc.Fence
	// ids gives slots their users; nil when we are not root.
	ids   *hostids.IDs
	slots *slots
}

func prepare(ctx context.Context, config Config) (*ready, error) {
	r := &ready{config: config}
	if config.Launcher.path == "" {
		return nil, errors.New("this program cannot be started as a launcher: its main does not call forkserver.Main")
	}
	filter, err := seccomp.Program(runtime.GOARCH)
	if err != nil {
		return nil, err
	}
	r.filter = hex.EncodeToString(filter)
	var attr *syscall.SysProcAttr
	if os.Geteuid() == 0 {
		if r.ids, err = hostids.Open(config.FirstUID, hostids.Forked); err != nil {
			return nil, err
		}
		first, _, err := r.ids.Take() // the templates'
		if err != nil {
			return nil, err
		}
		attr = &syscall.SysProcAttr{Credential: hostids.Credential(first)}
	}
	if r.python, err = interpreter.Find(ctx, config.Python, attr); err != nil {
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
	if err := r.lay(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(r.stage))
	}
	r.slots = newSlots(r)
	return r, nil
}

// lay writes down what the launcher is to build.
func (r *ready) lay() error {
	tree, err := rootfs.New(r.python)
	if err != nil {
		return err
	}
	r.launch = launchOrder{
		Binds: tree.Binds, Links: tree.Links, Devices: rootfs.Devices(), Writable: rootfs.Writable(),
		Stage: r.stage, Inside: rootfs.Inside, Hostname: rootfs.Hostname,
		Program:     program(r.python),
		Environment: append(slices.Clone(tree.Environment), "PWD=/workspace"),
	}
	return nil
}

// probe runs a guest with the smallest program, which is looked at from outside
// as every guest is.
func (r *ready) probe(ctx context.Context) error {
	err := guestproc.Probe(ctx, func(ctx context.Context, task backends.Task) (backends.Outcome, error) {
		task.Tenant = job.DefaultTenant
		return r.run(ctx, task)
	})
	if err != nil {
		// It is prepared anew before the next: many that fail are not to leave
		// a template each.
		return errors.Join(err, r.slots.rest())
	}
	return nil
}

// offered starts the named templates and returns the labels of those that can
// be.
func (r *ready) offered(ctx context.Context) map[string]string {
	wrong := r.slots.try(ctx)
	labels := map[string]string{}
	for name := range r.config.Templates {
		if err := wrong[name]; err != nil {
			r.config.Log.Warn().Err(err).Msg("template is not offered")
			continue
		}
		labels[job.TemplateLabel+name] = job.TemplateHere
	}
	return labels
}

func (r *ready) capabilities(labels map[string]string) backends.Capabilities {
	caps := backends.Capabilities{
		Offer: job.Offer{
			Backend: Name, Version: r.python.Version, Isolation: job.IsolationStrong,
			OS: runtime.GOOS, Arch: runtime.GOARCH, Python: r.python.Version, Forked: true, Labels: labels,
		},
		Isolated: job.Isolated{
			Level: job.IsolationStrong, Version: r.python.Version, Kernel: guestproc.Kernel(), Python: r.python.Version,
			Runtime: r.runtime(),
		},
	}
	r.fence.Describe(&caps)
	return caps
}

// runtime says who guests are on the host, which is what differs between a
// worker that is root and one that is not.
func (r *ready) runtime() string {
	if r.ids == nil {
		return "forked, as the worker's user"
	}
	return "forked, as a user of its slot's"
}
