package docker_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"airlock/backends"
	"airlock/backends/docker"
	"airlock/job"

	"github.com/docker/docker/api/types/container"
	"github.com/google/go-cmp/cmp"
)

// TestBenchmark holds what the engine is asked for against the rows of section
// 5, container runtime configuration, of the CIS Docker Benchmark. Rows that
// are about people's ways, such as the use of docker exec, have no check.
func TestBenchmark(t *testing.T) {
	t.Parallel()
	for _, network := range []string{"none", "guests"} {
		t.Run(network, func(t *testing.T) {
			t.Parallel()
			benchmark(t, network)
		})
	}
}

// benchmark holds the request of a guest that has that network.
func benchmark(t *testing.T, network string) {
	limits := job.DefaultLimits()
	guest := backends.Task{Job: job.NewID(), Attempt: 1, Limits: limits, Network: network != "none"}
	_, config, host := docker.Request(docker.Config{Network: network}, guest)
	option := func(prefix string) bool {
		return slices.ContainsFunc(host.SecurityOpt, func(o string) bool { return strings.HasPrefix(o, prefix) })
	}
	ulimit := func(name string) bool {
		return slices.ContainsFunc(host.Ulimits, func(u *container.Ulimit) bool { return u.Name == name })
	}
	// A mount option that is missing anywhere is missing.
	everywhere := func(word string) bool {
		for _, options := range host.Tmpfs {
			if !slices.Contains(strings.Split(options, ","), word) {
				return false
			}
		}
		return len(host.Tmpfs) == 3
	}
	for row, holds := range map[string]bool{
		"5.2 the engine's AppArmor profile is not turned off":       !option("apparmor"),
		"5.3 SELinux labels are not turned off":                     !option("label"),
		"5.4 no capabilities":                                       slices.Equal(host.CapDrop, []string{"ALL"}) && len(host.CapAdd) == 0,
		"5.5 not privileged":                                        !host.Privileged,
		"5.6 nothing of the host is mounted":                        len(host.Binds) == 0 && len(host.Mounts) == 0 && len(host.VolumesFrom) == 0 && len(config.Volumes) == 0,
		"5.8, 5.9 and 5.14 no port is published":                    len(host.PortBindings) == 0 && !host.PublishAllPorts,
		"5.10 not the host's network":                               host.NetworkMode == container.NetworkMode(network) && config.NetworkDisabled == (network == "none"),
		"5.30 not the engine's own bridge":                          !host.NetworkMode.IsBridge() && !host.NetworkMode.IsDefault(),
		"no names of hosts, no resolver of its own":                 len(host.ExtraHosts) == 0 && len(host.DNS) == 0 && len(host.Links) == 0,
		"the first process is ours, whatever the daemon's default":  host.Init != nil && !*host.Init,
		"a guest dies before a worker does where memory ends":       host.OomScoreAdj > 0 && (host.OomKillDisable == nil || !*host.OomKillDisable),
		"no knobs of the kernel":                                    len(host.Sysctls) == 0,
		"5.11 memory is bounded, swap with it":                      host.Memory == int64(limits.Memory) && host.MemorySwap == host.Memory,
		"5.12 processor time is rationed":                           host.NanoCPUs == 1e9,
		"5.13 the root is read-only":                                host.ReadonlyRootfs,
		"5.15 it is not started anew":                               host.RestartPolicy.Name == container.RestartPolicyDisabled,
		"5.16 not the host's processes":                             host.PidMode == "",
		"5.17 not the host's IPC":                                   host.IpcMode == "none",
		"5.18 no devices":                                           len(host.Devices) == 0 && len(host.DeviceRequests) == 0 && len(host.DeviceCgroupRules) == 0,
		"5.19 ulimits are set":                                      ulimit("core") && ulimit("nofile") && ulimit("fsize") && ulimit("cpu"),
		"5.20 no mount is propagated":                               len(host.Mounts) == 0,
		"5.21 not the host's UTS":                                   host.UTSMode == "" && config.Hostname == "guest",
		"5.22 a system-call filter of ours":                         option("seccomp=") && !option("seccomp=unconfined"),
		"5.25 not another control group":                            host.CgroupParent == "" && host.CgroupnsMode == container.CgroupnsModePrivate,
		"5.26 no privileges can be gained":                          option("no-new-privileges"),
		"5.27 nothing of the image runs as a health check":          cmp.Equal(config.Healthcheck.Test, []string{"NONE"}),
		"5.28 the image is named by its content":                    strings.HasPrefix(config.Image, "sha256:"),
		"5.29 processes are bounded":                                *host.PidsLimit == int64(limits.Processes)+1,
		"5.31 not the host's user namespace by request":             host.UsernsMode == "",
		"5.32 no engine's socket inside":                            len(host.Binds) == 0,
		"4.1 not root":                                              config.User == "60706:60706" && len(host.GroupAdd) == 0,
		"writable places are bounded, and nothing in them can run":  everywhere("noexec") && everywhere("nosuid") && everywhere("nodev"),
		"what the guest prints is not kept by the engine":           host.LogConfig.Type == "none",
		"the streams are apart, and end with the worker":            !config.Tty && config.OpenStdin && config.StdinOnce,
		"nothing of the worker's environment":                       len(config.Env) == 0,
		"the sweeper needs what it removes no less than removal is": !host.AutoRemove,
	} {
		if !holds {
			t.Errorf("%s: it does not hold", row)
		}
	}
}

func TestLabels(t *testing.T) {
	t.Parallel()
	task := backends.Task{Job: job.NewID(), Attempt: 3, Limits: job.DefaultLimits()}
	_, config, _ := docker.Request(docker.Config{}, task)
	at, err := time.Parse(time.RFC3339, config.Labels["airlock.deadline"])
	least := task.Limits.Wall.Std() + task.Limits.ToolTime.Std()
	if left := time.Until(at); err != nil || left < least || left > least+5*time.Minute {
		t.Errorf("got deadline %q, want a time after the job's %v", config.Labels["airlock.deadline"], least)
	}
	want := map[string]string{
		"airlock.owner": "name", "airlock.host": "host", "airlock.job": task.Job.String(), "airlock.attempt": "3",
		"airlock.deadline": config.Labels["airlock.deadline"],
	}
	if diff := cmp.Diff(want, config.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	// All five, or docker compose down --remove-orphans overlooks it.
	for name, content := range map[string]string{
		"project": "p", "service": "guest", "oneoff": "False", "container-number": "1", "config-hash": "guest",
	} {
		want["com.docker.compose."+name] = content
	}
	_, config, _ = docker.Request(docker.Config{Project: "p"}, task)
	want["airlock.deadline"] = config.Labels["airlock.deadline"]
	if diff := cmp.Diff(want, config.Labels); diff != "" {
		t.Errorf("labels in a project (-want +got):\n%s", diff)
	}
	// A parked guest has no job yet, and may be wanted at any time.
	_, config, _ = docker.Request(docker.Config{}, backends.Task{Limits: job.DefaultLimits()})
	if diff := cmp.Diff(map[string]string{"airlock.owner": "name", "airlock.host": "host"}, config.Labels); diff != "" {
		t.Errorf("labels of a parked guest (-want +got):\n%s", diff)
	}
}

// TestNetworkRequest: a guest with a network differs from one without by that
// and by what it needs to find names, and is bounded as much.
func TestNetworkRequest(t *testing.T) {
	t.Parallel()
	config := docker.Config{Network: "guests"}
	guest := backends.Task{Limits: job.DefaultLimits()}
	_, _, without := docker.Request(config, guest)
	guest.Network = true
	_, made, with := docker.Request(config, guest)
	if with.NetworkMode != "guests" || made.NetworkDisabled || without.NetworkMode != "none" {
		t.Errorf("got networks %s and %s, want guests and none", with.NetworkMode, without.NetworkMode)
	}
	names := []string{"/etc/hosts", "/etc/resolv.conf"}
	if got := without.MaskedPaths; !slices.Equal(got, append(names, with.MaskedPaths...)) {
		t.Errorf("got hidden without a network %q and with one %q, want %q to be all between them", got, with.MaskedPaths, names)
	}
	if cmp.Equal(with.SecurityOpt, without.SecurityOpt) {
		t.Error("got the same filter with a network, which allows no sockets")
	}
	with.NetworkMode, with.MaskedPaths, with.SecurityOpt = without.NetworkMode, without.MaskedPaths, without.SecurityOpt
	if diff := cmp.Diff(without, with); diff != "" {
		t.Errorf("what else differs (-without +with):\n%s", diff)
	}
}

// TestFewProcesses: engines cannot start a container below a number, so a
// lower limit comes later.
func TestFewProcesses(t *testing.T) {
	t.Parallel()
	limits := job.DefaultLimits()
	limits.Processes = 1
	_, _, host := docker.Request(docker.Config{}, backends.Task{Limits: limits})
	if got := *host.PidsLimit; got != 16 {
		t.Errorf("got a limit of %d processes at the start, want 16", got)
	}
}
