package docker

import (
	"context"
	"fmt"
	"time"

	"airlock/backends/internal/cgroup"
	"airlock/job"
)

// meter reads a container's counters.
type meter interface {
	// usage is what was counted so far, while the container runs.
	usage(ctx context.Context) (cgroup.Usage, error)
	// waitCPU blocks until so much processor time is used, and then returns
	// nil, or until ctx ends.
	waitCPU(ctx context.Context, limit time.Duration) error
	// killed is whether the kernel killed for memory, of a guest that is over
	// and whose container may be ended to find out.
	killed(ctx context.Context) (bool, error)
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
		return statsMeter{g.engine, g.id}, nil
	}
	cores := 0.0
	if g.facts.rations {
		cores = g.config.Cores
	}
	if group, err := cgroup.Watch(found.State.Pid, g.id, cores); err == nil {
		return groupMeter{group}, nil
	}
	return statsMeter{g.engine, g.id}, nil
}

type groupMeter struct{ group *cgroup.Group }

func (m groupMeter) usage(context.Context) (cgroup.Usage, error) { return m.group.Usage() }

func (m groupMeter) waitCPU(ctx context.Context, limit time.Duration) error {
	return m.group.WaitCPU(ctx, limit)
}

// killed is what usage has said already: the kernel counts as it kills.
func (groupMeter) killed(context.Context) (bool, error) { return false, nil }

// statsMeter has what the engine counts. It does not count processes that were
// refused, and of kills for memory it only knows whether there were any.
type statsMeter struct {
	engine *engine
	id     string
}

func (m statsMeter) usage(ctx context.Context) (cgroup.Usage, error) {
	stats, err := m.engine.stats(ctx, m.id)
	if err != nil {
		return cgroup.Usage{}, err
	}
	usage := cgroup.Usage{
		CPU:        time.Duration(stats.CPUStats.CPUUsage.TotalUsage),
		PeakMemory: int64(max(stats.MemoryStats.MaxUsage, stats.MemoryStats.Usage)),
	}
	state, err := m.engine.state(ctx, m.id)
	if state.OOMKilled {
		usage.OOMKills = 1
	}
	return usage, err
}

// statsPause is how often the engine is asked, and so how far past its limit a
// guest may get, beside its rate.
const statsPause = 100 * time.Millisecond

func (m statsMeter) waitCPU(ctx context.Context, limit time.Duration) error {
	tick := time.NewTicker(statsPause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		stats, err := m.engine.stats(ctx, m.id)
		if err != nil {
			return err
		}
		if time.Duration(stats.CPUStats.CPUUsage.TotalUsage) >= limit {
			return nil
		}
	}
}

// killed waits for the container's end: until then an engine keeps to itself
// what the kernel did.
func (m statsMeter) killed(ctx context.Context) (bool, error) {
	if err := m.engine.ended(ctx, m.id); err != nil {
		return false, err
	}
	state, err := m.engine.state(ctx, m.id)
	return state.OOMKilled, err
}
