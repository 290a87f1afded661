package docker

import (
	"context"
	"fmt"
	"time"

	"airlock/backends/internal/cgroup"
	"airlock/job"
)

// meter counts what a guest uses, from when it was told nothing yet.
type meter interface {
	// waitCPU blocks until so much processor time is used, and then returns
	// nil, or until ctx ends. One caller at a time.
	waitCPU(ctx context.Context, limit time.Duration) error
	// usage is what was counted of a guest that ended so.
	usage(e ending) (cgroup.Usage, error)
	// exact says that usage has all kills for memory. Else killed knows
	// whether there were any.
	exact() bool
	// killed is whether the kernel killed for memory, of a guest that is over
	// and whose container is about to end.
	killed(ctx context.Context) (bool, error)
	// works waits until it is seen to count.
	works(ctx context.Context) error
	// by is what holds the limit of processor time, for people.
	by() string
	// stop ends what runs for the meter, and waits for it.
	stop()
}

// newMeter reads the kernel's counters where the engine is on this host and
// they can be read, else the engine's, which are slower and fewer. A guest with
// a kernel of its own is counted there: this host's count what runs it.
func (g *guest) newMeter(ctx context.Context) (meter, error) {
	found, err := g.engine.inspect(ctx, g.id)
	if err != nil {
		return nil, err
	}
	if ran := found.HostConfig.Runtime; g.config.Runtime != "" && ran != g.config.Runtime {
		return nil, fmt.Errorf("the engine ran the container with %s, want %s", job.Printable(ran, 40), g.config.Runtime)
	}
	if g.backend.level == job.IsolationVM || g.config.remote {
		return newStreamMeter(ctx, g), nil
	}
	cores := 0.0
	if g.facts.rations {
		cores = g.config.Cores
	}
	group, err := cgroup.Watch(found.State.Pid, g.id, cores)
	if err != nil {
		return newStreamMeter(ctx, g), nil
	}
	used, err := group.Usage()
	return groupMeter{group, used.CPU}, err
}

// groupMeter has what the kernel counts, at any time.
type groupMeter struct {
	group *cgroup.Group
	// before is what the container had used for itself.
	before time.Duration
}

func (m groupMeter) usage(ending) (cgroup.Usage, error) {
	usage, err := m.group.Usage()
	usage.CPU = max(0, usage.CPU-m.before)
	return usage, err
}

func (m groupMeter) waitCPU(ctx context.Context, limit time.Duration) error {
	return m.group.WaitCPU(ctx, m.before+limit)
}

func (groupMeter) exact() bool { return true }

func (groupMeter) killed(context.Context) (bool, error) { return false, nil }

func (groupMeter) works(context.Context) error { return nil }

func (groupMeter) by() string { return "container's processor time, watched" }

func (groupMeter) stop() {}
