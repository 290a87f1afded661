package guestproc

import (
	"fmt"

	"airlock/backends"
	"airlock/backends/internal/cgroup"
	"airlock/job"
)

// Fence is what holds the limits of a backend's guests.
type Fence struct {
	// Groups is nil where there are no usable control groups, and Err says
	// why.
	Groups *cgroup.Host
	Err    error
	// Own counts the processes in a guest's group that are not the guest's.
	Own int
	// Cores is the rate of processor time of one guest.
	Cores float64
	// Also says by what further limits are held, and NotHeld why one is not.
	Also, NotHeld map[job.LimitName]string
}

// NewFence opens the host's control groups, or notes that it cannot.
func NewFence(own int, cores float64) Fence {
	f := Fence{Own: own, Cores: cores}
	f.Groups, f.Err = cgroup.Open()
	return f
}

// by says by what the limit is held; "" and the reason if it is not.
func (f Fence) by(name job.LimitName) (held, why string) {
	if held := f.Also[name]; held != "" {
		return held, ""
	}
	if why := f.NotHeld[name]; why != "" {
		return "", why
	}
	if f.Err != nil {
		return "", f.Err.Error()
	}
	needs := map[job.LimitName]cgroup.Controller{
		job.LimitMemory: cgroup.Memory, job.LimitProcesses: cgroup.Processes, job.LimitCPU: cgroup.Accounting,
	}[name]
	if needs == "" || !f.Groups.Has(needs) {
		return "", fmt.Sprintf("the host's control groups lack the %s controller", needs)
	}
	return fmt.Sprintf("cgroup %s %s", f.Groups, needs), ""
}

// Check returns an error that wraps backends.ErrUnenforceable for the first
// limit that is not held, and for a task that asks for an image or a network.
func (f Fence) Check(task backends.Task) error {
	for _, name := range task.Enforce {
		if held, why := f.by(name); held == "" {
			return fmt.Errorf("%w: %s: %s", backends.ErrUnenforceable, job.Printable(string(name), 40), why)
		}
	}
	return task.CheckPlain()
}

// Describe fills in which limits are held and by what.
func (f Fence) Describe(caps *backends.Capabilities) {
	if f.Groups != nil {
		caps.Isolated.Cgroup = f.Groups.String()
	}
	caps.Isolated.Limits = map[job.LimitName]string{}
	for _, name := range job.KernelLimits() {
		held, why := f.by(name)
		if held == "" {
			caps.Isolated.Limits[name] = "not enforced: " + why
			continue
		}
		caps.Isolated.Limits[name] = held
		caps.Offer.Limits = append(caps.Offer.Limits, name)
	}
}

// NewGroup makes a guest's group, or returns nil where there are none.
func (f Fence) NewGroup(l job.Limits) (*cgroup.Group, error) {
	if f.Groups == nil {
		return nil, nil
	}
	return f.Groups.New(cgroup.Limits{Memory: int64(l.Memory), Processes: l.Processes + f.Own, Cores: f.Cores})
}
