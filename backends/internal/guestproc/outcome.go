package guestproc

import (
	"syscall"

	"airlock/backends"
	"airlock/job"
)

// Outcome draws the guest's end together. status is how its main process
// ended, known whether we know; own counts the processes of its group that are
// not the guest's.
func (e Ending) Outcome(limits job.Limits, status syscall.WaitStatus, known bool, own int) backends.Outcome {
	out := backends.Outcome{
		OOMKills:      e.Usage.OOMKills,
		ProcessesFull: e.Usage.ProcessesFull,
		CPU:           e.Usage.CPU,
		PeakMemory:    job.Size(e.Usage.PeakMemory),
		PeakProcesses: max(0, e.Usage.PeakProcesses-own),
	}
	if out.CPU == 0 && e.State != nil {
		out.CPU = e.State.UserTime() + e.State.SystemTime()
	}
	out.Signal, out.ExitCode = e.how(status)
	if !known { // it was killed together with what would have told
		out.Signal, out.ExitCode = killed, 0
	}
	out.Cause = e.cause(limits, out)
	return out
}

// killed is the signal of our own kill, whatever the system has for it.
const killed = "SIGKILL"

// cause decides by what the kernel reports, first by how the process died: a
// guest that had exited by the time we killed it has exited.
func (e Ending) cause(limits job.Limits, out backends.Outcome) backends.Cause {
	spent := out.CPU >= limits.CPU.Std()
	switch out.Signal {
	case "":
		return backends.Exited
	case "SIGSYS":
		return backends.Violated
	case "SIGXCPU":
		if spent {
			return backends.OutOfCPU
		}
	case killed:
		switch {
		case e.CPUReached:
			return backends.OutOfCPU
		case e.Stopped != nil:
			return backends.Killed
		case out.OOMKills > 0:
			return backends.OutOfMemory
		case spent:
			return backends.OutOfCPU
		}
	}
	return backends.Signalled
}
