package docker

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"

	"airlock/backends"
	"airlock/backends/internal/owner"
	"airlock/job"
)

// ready is what a prepared backend has. Only the facts change.
type ready struct {
	config Config
	engine *engine
	owner  owner.Owner
	// hostID tells this worker's host from others that use the engine.
	hostID string
	shared *shared
	// facts are those of the last probe that went well.
	facts atomic.Pointer[facts]
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
	r.engine, err = connect(ctx, config.Host, config.patience)
	return r, err
}

// known are the facts of the last probe, or what can be had without one.
func (r *ready) known(ctx context.Context) (*facts, error) {
	if f := r.facts.Load(); f != nil {
		return f, nil
	}
	f, err := r.ask(ctx)
	if err != nil {
		return nil, err
	}
	r.facts.CompareAndSwap(nil, f)
	return r.facts.Load(), nil
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
	job.LimitCPU:       groupMeter{}.by(), // or what another meter says
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
