package docker

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"airlock/job"

	"github.com/docker/docker/api/types/container"
)

const (
	// ownProcesses is the container's first process, beside the guest's.
	ownProcesses = 1
	// fewestProcesses is what an engine's runtime needs to start a container;
	// a lower limit is set once it runs.
	fewestProcesses = 16

	oomScore  = 900
	openFiles = 256
	stackSize = 8 << 20
	// fileSlack keeps the size of a file from being the limit when a file
	// system is full, so that a program sees the one that a result names.
	fileSlack = 1 << 20
	// bytesPerFile gives the number of files that a file system holds.
	bytesPerFile, fewestFiles = 4 << 10, 256
)

// The labels of guests' containers. Owner, host and deadline are what the
// sweeper goes by, the others are for people.
const (
	labelOwner   = "airlock.owner"
	labelHost    = "airlock.host"
	labelJob     = "airlock.job"
	labelAttempt = "airlock.attempt"
	// labelDeadline is when nobody can want the guest any more. One that is
	// parked has none, nor a job.
	labelDeadline = "airlock.deadline"
)

// request is what the engine is asked to create.
type request struct {
	name   string
	config container.Config
	host   container.HostConfig
}

// newRequest is the container of one guest. All that is not said here is the
// engine's default, which the test holds against the CIS benchmark.
func (g *guest) newRequest(name string) request {
	return request{name: name, config: g.newConfig(name), host: g.newHostConfig(g.task.Limits)}
}

func (g *guest) newConfig(name string) container.Config {
	return container.Config{
		Image: g.image.id, User: fmt.Sprintf("%d:%d", g.uid, g.uid), Hostname: "guest", WorkingDir: "/workspace",
		Entrypoint: []string{"/airlock/python", "-I", "-S", "-B", "/airlock/first.py"},
		// No Tty, which would mix the streams and change their bytes.
		AttachStdin: true, AttachStdout: true, AttachStderr: true, OpenStdin: true, StdinOnce: true,
		NetworkDisabled: g.network == "",
		// An engine that stops waits for nobody: a first process takes no other
		// signal.
		StopSignal:  "SIGKILL",
		Healthcheck: &container.HealthConfig{Test: []string{"NONE"}},
		Labels:      g.labels(name),
	}
}

func (g *guest) labels(name string) map[string]string {
	labels := map[string]string{labelOwner: name, labelHost: g.hostID}
	if !g.task.Job.IsZero() {
		labels[labelJob], labels[labelAttempt] = g.task.Job.String(), strconv.Itoa(g.task.Attempt)
		labels[labelDeadline] = g.deadline(time.Now()).Format(time.RFC3339)
	}
	if g.config.Project != "" {
		const compose = "com.docker.compose."
		labels[compose+"project"], labels[compose+"service"] = g.config.Project, "guest"
		labels[compose+"oneoff"], labels[compose+"container-number"] = "False", "1"
		labels[compose+"config-hash"] = "guest" // newer ones overlook what has none
	}
	return labels
}

// deadline is when nobody can want the guest any more. Its wall clock stands
// still during its calls, which have a limit of their own in all.
func (g *guest) deadline(now time.Time) time.Time {
	l, p := g.task.Limits, g.config.patience
	return now.Add(l.Wall.Std() + l.ToolTime.Std() + p.start + p.remove).UTC()
}

func (g *guest) newHostConfig(l job.Limits) container.HostConfig {
	mode, profile, hidden := container.NetworkMode("none"), g.facts.profile, masked
	if g.network != "" {
		mode, profile = container.NetworkMode(g.network), g.facts.netProfile
	} else {
		hidden = append(slices.Clone(names), masked...)
	}
	return container.HostConfig{
		NetworkMode: mode, IpcMode: "none", CgroupnsMode: container.CgroupnsModePrivate,
		ReadonlyRootfs: true, CapDrop: []string{"ALL"},
		SecurityOpt:   []string{"no-new-privileges", "seccomp=" + profile},
		Tmpfs:         map[string]string{"/tmp": g.tmpfs(l.Disk), "/workspace": g.tmpfs(l.Disk), "/dev/shm": g.tmpfs(l.Disk)},
		MaskedPaths:   hidden,
		ReadonlyPaths: []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"},
		// The engine keeps no copy of what guests print.
		LogConfig:     container.LogConfig{Type: "none"},
		RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyDisabled},
		Runtime:       g.config.Runtime,
		// The first process is the init, and a daemon may be told to add one.
		Init: new(bool),
		// Where the host itself is out of memory a guest dies, not a worker.
		OomScoreAdj: oomScore,
		Resources:   g.resources(l),
	}
}

func (g *guest) resources(l job.Limits) container.Resources {
	processes := max(int64(l.Processes+ownProcesses), fewestProcesses)
	limits := container.Resources{
		Memory: int64(l.Memory), MemorySwap: int64(l.Memory), PidsLimit: &processes,
		Ulimits: ulimits(l),
	}
	// Some kernels count processor time and cannot ration it.
	if g.facts.rations {
		limits.NanoCPUs = int64(g.config.Cores * 1e9)
	}
	return limits
}

// ulimits bound each single process; they are a second fence, since the
// container's bounds are on the whole tree.
func ulimits(l job.Limits) []*container.Ulimit {
	// Beyond the job's limit, as the kernel may be early with a single process.
	cpu := int64((l.CPU.Std()+time.Second-1)/time.Second) + 1
	file := int64(l.Disk) + fileSlack
	limit := func(name string, soft, hard int64) *container.Ulimit {
		return &container.Ulimit{Name: name, Soft: soft, Hard: hard}
	}
	return []*container.Ulimit{
		limit("core", 0, 0), limit("cpu", cpu, cpu+1), limit("fsize", file, file), limit("nofile", openFiles, openFiles),
		limit("stack", stackSize, stackSize), limit("memlock", 0, 0), limit("msgqueue", 0, 0),
		limit("rtprio", 0, 0), limit("nice", 0, 0),
	}
}

// tmpfs are the options of a file system that the guest may write to. Its
// pages count as the guest's memory.
func (g *guest) tmpfs(size job.Size) string {
	return fmt.Sprintf("rw,noexec,nosuid,nodev,size=%d,nr_inodes=%d,mode=0700,uid=%d,gid=%d",
		int64(size), max(int64(size)/bytesPerFile, fewestFiles), g.uid, g.uid)
}

// names are files with the names of other hosts, which are only of use to a
// guest that can reach some.
var names = []string{"/etc/hosts", "/etc/resolv.conf"}

// masked are the paths that a guest finds empty: the engine's own list, and
// what else tells of the host.
var masked = []string{
	"/sys", "/etc/hostname",
	"/proc/meminfo", "/proc/uptime", "/proc/pressure", "/proc/sys/kernel/random/boot_id",
	"/proc/acpi", "/proc/asound", "/proc/buddyinfo", "/proc/bootconfig", "/proc/cgroups", "/proc/cmdline", "/proc/config.gz",
	"/proc/cpuinfo", "/proc/crypto", "/proc/devices", "/proc/diskstats", "/proc/driver", "/proc/interrupts", "/proc/iomem",
	"/proc/ioports", "/proc/kallsyms", "/proc/kcore", "/proc/key-users", "/proc/keys", "/proc/kmsg", "/proc/kpagecgroup",
	"/proc/kpagecount", "/proc/kpageflags", "/proc/latency_stats", "/proc/loadavg", "/proc/locks", "/proc/misc", "/proc/modules",
	"/proc/mtrr", "/proc/pagetypeinfo", "/proc/partitions", "/proc/sched_debug", "/proc/schedstat", "/proc/scsi", "/proc/slabinfo",
	"/proc/softirqs", "/proc/stat", "/proc/swaps", "/proc/timer_list", "/proc/timer_stats", "/proc/version", "/proc/vmallocinfo",
	"/proc/vmstat", "/proc/zoneinfo",
}
