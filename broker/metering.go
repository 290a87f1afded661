package broker

import (
	"time"

	"airlock/job"
)

// Meter counts what guests do with tools. Its methods are called from several
// goroutines at once and must be quick.
type Meter interface {
	// Call is told of each call that has ended, and how long it took from the
	// guest's frame to its recorded end. tool is namespace.name as a provider
	// announced it, or "" where the guest asked for something else: what it
	// wrote is not passed on.
	Call(tool string, state job.CallState, took time.Duration)
	// Audited is told how long the record of a call's start, or end, took to
	// be durable, or why it is not.
	Audited(start bool, took time.Duration, err error)
}

// unmetered counts nothing.
type unmetered struct{}

func (unmetered) Call(string, job.CallState, time.Duration) {}
func (unmetered) Audited(bool, time.Duration, error)        {}

// measure tells the meter how the call ended.
func (f *flight) measure() {
	tool := ""
	if f.tool != nil {
		tool = f.tool.Namespace + "." + f.tool.Name
	}
	f.s.b.cfg.Meter.Call(tool, f.call.State, max(0, time.Since(f.call.Started)))
}
