package docker

import (
	"fmt"

	"airlock/backends"
	"airlock/backends/internal/cgroup"
	"airlock/job"
)

// The signals that causes depend on, in Linux's numbers: containers are always
// Linux's, whatever the worker runs on.
const (
	sigkill = 9
	sigxcpu = 24
	sigsys  = 31
)

// signals are Linux's names, by number, on the architectures we run on.
var signals = [...]string{
	1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE",
	sigkill: "SIGKILL", 10: "SIGUSR1", 11: "SIGSEGV", 12: "SIGUSR2", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM",
	16: "SIGSTKFLT", 17: "SIGCHLD", 18: "SIGCONT", 19: "SIGSTOP", 20: "SIGTSTP", 21: "SIGTTIN", 22: "SIGTTOU", 23: "SIGURG",
	sigxcpu: "SIGXCPU", 25: "SIGXFSZ", 26: "SIGVTALRM", 27: "SIGPROF", 28: "SIGWINCH", 29: "SIGIO", 30: "SIGPWR", sigsys: "SIGSYS",
}

func signalName(number uint32) string {
	if int(number) < len(signals) && signals[number] != "" {
		return signals[number]
	}
	return fmt.Sprintf("SIG%d", number)
}

// judge draws the guest's end together.
func (g *guest) judge(e ending, usage cgroup.Usage) backends.Outcome {
	out := backends.Outcome{
		OOMKills: usage.OOMKills, ProcessesFull: usage.ProcessesFull, DiskFull: e.diskFull,
		CPU: usage.CPU, PeakMemory: job.Size(usage.PeakMemory), PeakProcesses: max(0, usage.PeakProcesses-ownProcesses),
	}
	signal := e.status & 0x7f
	if signal == 0 {
		out.ExitCode = int(e.status >> 8 & 0xff)
	} else {
		out.Signal = signalName(signal)
	}
	out.Cause = g.cause(signal, out)
	return out
}

// cause decides first by how the main process died: a guest that had exited by
// the time we killed it has exited.
func (g *guest) cause(signal uint32, out backends.Outcome) backends.Cause {
	spent := out.CPU >= g.task.Limits.CPU.Std()
	switch {
	case signal == 0:
		return backends.Exited
	case signal == sigsys:
		return backends.Violated
	case signal == sigxcpu && spent:
		return backends.OutOfCPU
	case signal != sigkill:
		return backends.Signalled
	case g.spent:
		return backends.OutOfCPU
	case g.stopped != nil:
		return backends.Killed
	case out.OOMKills > 0:
		return backends.OutOfMemory
	case spent:
		return backends.OutOfCPU
	}
	return backends.Signalled
}
