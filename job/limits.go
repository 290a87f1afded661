package job

import (
	"fmt"
	"time"
)

// Limits bound one attempt. A zero field means the default.
type Limits struct {
	// Wall is the guest's own time by the host's monotonic clock. It pauses
	// while one of the guest's calls is open.
	Wall Duration `json:"wall,omitzero"`
	// CPU is processor time of the whole process tree, calls included.
	CPU Duration `json:"cpu,omitzero"`
	// Memory is what the whole process tree may hold, files under /workspace
	// and /tmp included. There is no swap.
	Memory Size `json:"memory,omitzero"`
	// Output is how much of each of stdout and stderr is kept. What exceeds
	// it is counted; past MaxOutputTotal in both the guest is ended.
	Output Size `json:"output,omitzero"`
	// Processes is how many processes and threads may exist at once.
	Processes int `json:"processes,omitzero"`
	// Disk is what each writable file system of the guest holds.
	Disk Size `json:"disk,omitzero"`
	// ToolCalls is how many calls may be made.
	ToolCalls int `json:"tool_calls,omitzero"`
	// ToolTime is how long calls may be open in sum.
	ToolTime Duration `json:"tool_time,omitzero"`
	// Result is the size of the encoded value.
	Result Size `json:"result,omitzero"`
}

// MaxOutputTotal is the sum of stdout and stderr, kept or not, at which a
// guest is ended with StatusOutputLimit.
const MaxOutputTotal = 16 * MiB

// DefaultLimits are those of a job that names none.
func DefaultLimits() Limits {
	return Limits{
		Wall:      Duration(30 * time.Second),
		CPU:       Duration(15 * time.Second),
		Memory:    256 * MiB,
		Output:    64 * KiB,
		Processes: 64,
		Disk:      64 * MiB,
		ToolCalls: 100,
		ToolTime:  Duration(60 * time.Second),
		Result:    1 * MiB,
	}
}

// MinLimits are the smallest accepted values: below them no interpreter
// starts, so that a job would fail for a reason it does not name.
func MinLimits() Limits {
	return Limits{
		Wall:      Duration(10 * time.Millisecond),
		CPU:       Duration(100 * time.Millisecond),
		Memory:    16 * MiB,
		Output:    1,
		Processes: 1,
		Disk:      64 * KiB,
		ToolCalls: 1,
		ToolTime:  Duration(10 * time.Millisecond),
		Result:    64,
	}
}

// MaxLimits are the largest values that an operator who sets none accepts.
func MaxLimits() Limits {
	return Limits{
		Wall:      Duration(time.Hour),
		CPU:       Duration(time.Hour),
		Memory:    16 * GiB,
		Output:    MaxOutputTotal,
		Processes: 4096,
		Disk:      4 * GiB,
		ToolCalls: 100_000,
		ToolTime:  Duration(time.Hour),
		Result:    4 * MiB,
	}
}

// limit is one limit seen without its unit, so that defaults, bounds and
// comparison are written once.
type limit struct {
	name   LimitName
	value  func(*Limits) int64
	set    func(*Limits, int64)
	format func(int64) string
}

// LimitName is a limit's name in JSON and in a backend's capabilities.
type LimitName string

// The limits that a backend enforces with the kernel's help. All others are
// enforced by the worker and its broker, whatever the backend.
const (
	LimitCPU       LimitName = "cpu"
	LimitMemory    LimitName = "memory"
	LimitProcesses LimitName = "processes"
	LimitDisk      LimitName = "disk"
)

// KernelLimits lists the limits that need the backend, in canonical order.
func KernelLimits() []LimitName {
	return []LimitName{LimitCPU, LimitDisk, LimitMemory, LimitProcesses}
}

func durationLimit(name LimitName, field func(*Limits) *Duration) limit {
	return limit{
		name:   name,
		value:  func(l *Limits) int64 { return int64(*field(l)) },
		set:    func(l *Limits, v int64) { *field(l) = Duration(v) },
		format: func(v int64) string { return Duration(v).String() },
	}
}

func sizeLimit(name LimitName, field func(*Limits) *Size) limit {
	return limit{
		name:   name,
		value:  func(l *Limits) int64 { return int64(*field(l)) },
		set:    func(l *Limits, v int64) { *field(l) = Size(v) },
		format: func(v int64) string { return Size(v).String() },
	}
}

func countLimit(name LimitName, field func(*Limits) *int) limit {
	return limit{
		name:   name,
		value:  func(l *Limits) int64 { return int64(*field(l)) },
		set:    func(l *Limits, v int64) { *field(l) = int(v) },
		format: func(v int64) string { return fmt.Sprint(v) },
	}
}

var allLimits = []limit{
	durationLimit("wall", func(l *Limits) *Duration { return &l.Wall }),
	durationLimit(LimitCPU, func(l *Limits) *Duration { return &l.CPU }),
	sizeLimit(LimitMemory, func(l *Limits) *Size { return &l.Memory }),
	sizeLimit("output", func(l *Limits) *Size { return &l.Output }),
	countLimit(LimitProcesses, func(l *Limits) *int { return &l.Processes }),
	sizeLimit(LimitDisk, func(l *Limits) *Size { return &l.Disk }),
	countLimit("tool_calls", func(l *Limits) *int { return &l.ToolCalls }),
	durationLimit("tool_time", func(l *Limits) *Duration { return &l.ToolTime }),
	sizeLimit("result", func(l *Limits) *Size { return &l.Result }),
}

// WithDefaults fills the fields that are zero.
func (l Limits) WithDefaults() Limits {
	defaults := DefaultLimits()
	for _, lim := range allLimits {
		if lim.value(&l) == 0 {
			lim.set(&l, lim.value(&defaults))
		}
	}
	return l
}

// Named lists the kernel limits that are set, in canonical order. It is never
// nil: an empty list says that none is.
func (l Limits) Named() []LimitName {
	names := []LimitName{}
	for _, name := range KernelLimits() {
		for _, lim := range allLimits {
			if lim.name == name && lim.value(&l) != 0 {
				names = append(names, name)
			}
		}
	}
	return names
}

// Above returns a sentence for the first limit of l that exceeds max, or "".
// Zero fields of max stand for MaxLimits.
func (l Limits) Above(max Limits) string {
	if name, why := l.above(max); why != "" {
		return "limits." + string(name) + " " + why
	}
	return ""
}

func (l Limits) above(max Limits) (name LimitName, why string) {
	ceiling := MaxLimits()
	for _, lim := range allLimits {
		bound := lim.value(&max)
		if bound == 0 {
			bound = lim.value(&ceiling)
		}
		if value := lim.value(&l); value > bound {
			return lim.name, fmt.Sprintf("is %s, the maximum is %s", lim.format(value), lim.format(bound))
		}
	}
	return "", ""
}

// check returns the first limit that is set and out of bounds.
func (l Limits) check() *FieldError {
	min := MinLimits()
	for _, lim := range allLimits {
		value, low := lim.value(&l), lim.value(&min)
		if value != 0 && value < low {
			return fieldErrorf("limits."+string(lim.name), "is %s, the minimum is %s", lim.format(value), lim.format(low))
		}
	}
	if name, why := l.above(Limits{}); why != "" {
		return fieldErrorf("limits."+string(name), "%s", why)
	}
	return nil
}
