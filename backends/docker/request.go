package docker

import (
	"fmt"
	"strconv"
	"time"

	"airlock/backends"
	"airlock/job"

	"github.com/docker/docker/api/types/container"
)

const (
	// uid is the guest's user and group.
	uid = 65532
	// ownProcesses is the container's first process, beside the guest's.
	ownProcesses = 1
	// fewestProcesses is what an engine's runtime needs to start a container;
	// a lower limit is set once it runs.
	fewestProcesses = 16

	openFiles = 256
	stackSize = 8 << 20
	// fileSlack keeps the size of a file from being the limit when a file
	// system is full, so that a program sees the one that a result names.
	fileSlack = 1 << 20
	// bytesPerFile gives the number of files that a file system holds.
	bytesPerFile, fewestFiles = 4 << 10, 256
)

// The labels of guests' containers. Owner and host are what the sweeper goes
// by, the others are for people.
const (
	labelOwner   = "airlock.owner"
	labelHost    = "airlock.host"
	labelJob     = "airlock.job"
	labelAttempt = "airlock.attempt"
)

// request is what the engine is asked to create.
type request struct {
	name   string
	config container.Config
	host   container.HostConfig
}

// newRequest is the container of one guest. All that is not said here is the
// engine's default, which the test holds against the CIS benchmark.
func (r *ready) newRequest(name string, task backends.Task) request {
	return request{name: name, config: r.newConfig(name, task), host: r.newHostConfig(task.Limits)}
}

func (r *ready) newConfig(name string, task backends.Task) container.Config {
	return container.Config{
		Image: r.image, User: fmt.Sprintf("%d:%d", uid, uid), Hostname: "guest", WorkingDir: "/workspace",
		Entrypoint: []string{"/airlock/python", "-I", "-S", "-B", "/airlock/first.py"},
		// No Tty, which would mix the streams and change their bytes.
		AttachStdin: true, AttachStdout: true, AttachStderr: true, OpenStdin: true, StdinOnce: true,
		NetworkDisabled: true,
		Healthcheck:     &container.HealthConfig{Test: []string{"NONE"}},
		Labels:          r.labels(name, task),
	}
}

func (r *ready) labels(name string, task backends.Task) map[string]string {
	labels := map[string]string{
		labelOwner: name, labelHost: r.hostID,
		labelJob: task.Job.String(), labelAttempt: strconv.Itoa(task.Attempt),
	}
	if r.config.Project != "" {
		const compose = "com.docker.compose."
		labels[compose+"project"], labels[compose+"service"] = r.config.Project, "guest"
		labels[compose+"oneoff"], labels[compose+"container-number"] = "False", "1"
		labels[compose+"config-hash"] = "guest" // newer ones overlook what has none
	}
	return labels
}

func (r *ready) newHostConfig(l job.Limits) container.HostConfig {
	return container.HostConfig{
		NetworkMode: "none", IpcMode: "none", CgroupnsMode: container.CgroupnsModePrivate,
		ReadonlyRootfs: true, CapDrop: []string{"ALL"},
		SecurityOpt:   []string{"no-new-privileges", "seccomp=" + r.profile},
		Tmpfs:         map[string]string{"/tmp": tmpfs(l.Disk), "/workspace": tmpfs(l.Disk)},
		MaskedPaths:   masked,
		ReadonlyPaths: []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"},
		// The engine keeps no copy of what guests print.
		LogConfig:     container.LogConfig{Type: "none"},
		RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyDisabled},
		Runtime:       r.config.Runtime,
		Resources:     r.resources(l),
	}
}

func (r *ready) resources(l job.Limits) container.Resources {
	processes := max(int64(l.Processes+ownProcesses), fewestProcesses)
	limits := container.Resources{
		Memory: int64(l.Memory), MemorySwap: int64(l.Memory), PidsLimit: &processes,
		Ulimits: ulimits(l),
	}
	// Some kernels count processor time and cannot ration it.
	if r.rations {
		limits.NanoCPUs = int64(r.config.Cores * 1e9)
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
func tmpfs(size job.Size) string {
	return fmt.Sprintf("rw,noexec,nosuid,nodev,size=%d,nr_inodes=%d,mode=0700,uid=%d,gid=%d",
		int64(size), max(int64(size)/bytesPerFile, fewestFiles), uid, uid)
}

// masked are the paths that a guest finds empty: the engine's own list, and
// what else tells of the host.
var masked = []string{
	"/sys", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf",
	"/proc/acpi", "/proc/asound", "/proc/buddyinfo", "/proc/bootconfig", "/proc/cgroups", "/proc/cmdline", "/proc/config.gz",
	"/proc/cpuinfo", "/proc/crypto", "/proc/devices", "/proc/diskstats", "/proc/driver", "/proc/interrupts", "/proc/iomem",
	"/proc/ioports", "/proc/kallsyms", "/proc/kcore", "/proc/key-users", "/proc/keys", "/proc/kmsg", "/proc/kpagecgroup",
	"/proc/kpagecount", "/proc/kpageflags", "/proc/latency_stats", "/proc/loadavg", "/proc/locks", "/proc/misc", "/proc/modules",
	"/proc/mtrr", "/proc/pagetypeinfo", "/proc/partitions", "/proc/sched_debug", "/proc/schedstat", "/proc/scsi", "/proc/slabinfo",
	"/proc/softirqs", "/proc/stat", "/proc/swaps", "/proc/timer_list", "/proc/timer_stats", "/proc/version", "/proc/vmallocinfo",
	"/proc/vmstat", "/proc/zoneinfo",
}
