package docker

import (
	"context"
	"time"

	"airlock/backends/internal/cgroup"
)

// meter reads a container's counters.
type meter interface {
	// usage is what was counted so far, while the container runs.
	usage(ctx context.Context) (cgroup.Usage, error)
	// waitCPU blocks until so much processor time is used, and then returns
	// nil, or until ctx ends.
	waitCPU(ctx context.Context, limit time.Duration) error
}

// newMeter reads the kernel's counters where the engine is on this host and
// they can be read, else the engine's, which are slower and fewer.
func (r *ready) newMeter(ctx context.Context, id string) (meter, error) {
	state, err := r.engine.state(ctx, id)
	if err != nil {
		return nil, err
	}
	cores := 0.0
	if r.rations {
		cores = r.config.Cores
	}
	if group, err := cgroup.Watch(state.Pid, id, cores); err == nil && !r.config.remote {
		return groupMeter{group}, nil
	}
	return statsMeter{r.engine, id}, nil
}

type groupMeter struct{ group *cgroup.Group }

func (m groupMeter) usage(context.Context) (cgroup.Usage, error) { return m.group.Usage() }

func (m groupMeter) waitCPU(ctx context.Context, limit time.Duration) error {
	return m.group.WaitCPU(ctx, limit)
}

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
