package backendtest

// Reasons why an attack is not shown to get through without a wall.
const (
	blindHarm     = "it would harm the host"
	blindKernel   = "kernels are built with or without it"
	blindAlready  = "every backend prevents it"
	blindSends    = "the test sends nothing beyond its host"
	blindServices = "hosts differ in what runs"
)

// walls are the stories of guests that want to get at the host, or at each
// other.
func walls() []story {
	return []story{
		{
			name: "wall: network", hostile: true, code: program("network.py"), arrange: openCanaries,
			attacks: []attack{
				{name: "tcp4", rows: "NW2"}, {name: "tcp6", rows: "NW2", needs: ipv6}, {name: "udp", rows: "NW2 NW6"}, {name: "unix", rows: "NW8"}, {name: "abstract", rows: "NW7"},
				{name: "public address", rows: "NW1", blind: blindSends},
				{name: "public address of IPv6", rows: "NW1", blind: blindSends},
				{name: "metadata of clouds", rows: "NW4", blind: blindSends},
				{name: "the host's addresses", rows: "NW3", needs: addresses}, {name: "ports of services", rows: "NW3", blind: blindServices},
				{name: "multipath TCP", rows: "NW11", needs: multipath}, {name: "ICMP", rows: "NW6", blind: "a sysctl names the groups that may"},
				{name: "tables of sockets", rows: "PS5"}, {name: "interfaces", rows: "NW13", needs: capability(capNetAdmin)},
				{name: "tunnels", rows: "NW13", blind: blindKernel}, {name: "keys, RxRPC, xfrm", rows: "KS6", blind: blindKernel},
				{name: "raw socket", rows: "NW6", needs: capability(capNetRaw)}, {name: "packet socket", rows: "NW6 KS6", needs: capability(capNetRaw)},
				{name: "netlink", rows: "KS6"}, {name: "kernel crypto socket", rows: "KS6", blind: blindKernel}, {name: "vsock", rows: "IC6 KS6", blind: blindKernel},
			},
		},
		{
			name: "wall: files", hostile: true, code: program("files.py"), arrange: canaryFile,
			attacks: []attack{
				{name: "shadow", rows: "FR5", needs: capability(capDACOverride)}, {name: "canary file", rows: "FR1"}, {name: "canary file by a link", rows: "FR1"},
				{name: "canary file by another's root", rows: "FR3", needs: capability(capSysPtrace)},
				{name: "canary file by links of /proc", rows: "FR3"},
				{name: "home directory", rows: "FR6", needs: home}, {name: "credentials", rows: "FR6", blind: "hosts differ in what is there"},
				{name: "shells and compilers", rows: "FR13"}, {name: "set-user-ID files of its own", rows: "FW5"},
				{name: "set-user-ID programs", rows: "PV1"}, {name: "remove what is mounted", rows: "FW12", blind: blindHarm},
				{name: "replace device nodes", rows: "PS10", blind: blindHarm}, {name: "compiled files", rows: "FW2 XJ10", blind: blindHarm},
				{name: "paths of the host in mountinfo", rows: "PS3"}, {name: "sysrq and buses", rows: "PS7", needs: capability(capSysAdmin)},
				{name: "counters of the host", rows: "PS9"}, {name: "boot id", rows: "SE10"},
				{name: "the host's /etc", rows: "FR5"}, {name: "host name", rows: "SE10"},
				{name: "write to the host", rows: "FW9"}, {name: "write to the system", rows: "FW1", blind: blindHarm},
				{name: "change the standard library", rows: "FW2 XJ10", blind: blindHarm},
				{name: "kernel knobs", rows: "FW7", needs: capability(capSysAdmin)}, {name: "kernel secrets", rows: "PS2"}, {name: "/sys", rows: "PS8 FW7"}, {name: "cgroups", rows: "TO6 FW7"},
				{name: "devices", rows: "FR12", needs: capability(capSysAdmin)}, {name: "sockets of services", rows: "SE5", blind: blindServices},
			},
		},
		{
			name: "wall: secrets", hostile: true, code: program("secrets.py"),
			arrange: func(s *stage) { victim(s); s.vars["SECRET"] = secretValue },
			attacks: []attack{
				{name: "own environment", rows: "SE1", blind: blindAlready}, {name: "environment of another process", rows: "SE2"},
				{name: "core files", rows: "SE9", blind: blindAlready},
			},
		},
		{
			name: "wall: processes of the host", hostile: true, code: program("processes.py"), arrange: exposeVictim,
			attacks: []attack{
				{name: "found in /proc", rows: "PS1"}, {name: "signal 0", rows: "PX1"}, {name: "trace", rows: "PX3", needs: capability(capSysPtrace)}, {name: "memory map", rows: "PX4"},
				{name: "pidfd", rows: "PX5"}, {name: "descriptor of another", rows: "PX5", needs: capability(capSysPtrace)}, {name: "type into a terminal", rows: "PX10", blind: "tests have no terminal"},
				{name: "priority of another", rows: "PX7"}, {name: "kill", rows: "PX2"},
			},
		},
		{
			name: "wall: system calls", hostile: true, code: program("system.py"),
			attacks: systemCalls(),
		},
		{
			name: "wall: posture", code: program("posture.py"), arrange: posture,
			attacks: []attack{
				{name: "root inside", rows: "KS3", needs: capability(capSetUID)}, {name: "root outside", rows: "KS3 PV2", needs: capability(capSetUID)},
				{name: "capabilities", rows: "KS3", needs: capability(capSetUID)}, {name: "capabilities to be had", rows: "KS3"},
				{name: "no system-call filter", rows: "KS3"}, {name: "may gain privileges", rows: "KS3 PV14", blind: blindAlready},
				{name: "the host's namespaces", rows: "KS3"},
			},
		},
		{
			name: "wall: files brought back", hostile: true, collect: []string{"out/**"}, code: program("outputs.py"), arrange: canaryOutput,
			attacks: []attack{
				{name: "a link in an output's place", rows: "OF1"}, {name: "a folder of outputs that is a link", rows: "OF2"},
				{name: "a hard link in an output's place", rows: "OF4"},
			},
		},
		{
			name: "wall: what an earlier guest left", code: program("look.py"), arrange: earlierGuest,
			attacks: []attack{
				{name: "/tmp", rows: "XJ10"}, {name: "/dev/shm", rows: "IC1"}, {name: "/var/tmp", rows: "XJ10"}, {name: "/workspace", rows: "XJ10", blind: "every backend gives each guest its own"},
			},
		},
		{
			name: "wall: a guest beside it", hostile: true, code: program("prowler.py"), arrange: neighbour,
			attacks: []attack{{name: "found in /proc", rows: "PS1"}, {name: "abstract socket", rows: "NW7"}, {name: "loopback", rows: "NW2"}, {name: "kill everybody", rows: "PX2", blind: blindHarm}},
		},
	}
}

func systemCalls() []attack {
	admin := capability(capSysAdmin)
	return []attack{
		{name: "mount", rows: "PV6", needs: admin}, {name: "fsopen", rows: "PV6", needs: admin}, {name: "open_tree", rows: "PV6", needs: admin}, {name: "mount_setattr", rows: "PV6"},
		{name: "unmount", rows: "FR9 PV6", blind: blindHarm},
		{name: "namespace: mount", rows: "PV4", needs: admin}, {name: "namespace: network", rows: "PV4", needs: admin}, {name: "namespace: pid", rows: "PV4", needs: admin},
		{name: "namespace: user", rows: "PV4 PV5", needs: userNamespaces}, {name: "setns", rows: "PV7"},
		{name: "chroot", rows: "PV7", needs: capability(capSysChroot)},
		{name: "setuid 0", rows: "PV2", needs: capability(capSetUID)}, {name: "setuid another", rows: "PV2", needs: capability(capSetUID)},
		{name: "setgid 0", rows: "PV2", needs: capability(capSetUID)}, {name: "setgroups", rows: "PV2", needs: capability(capSetUID)},
		{name: "chown", rows: "PV2", needs: capability(capChown)}, {name: "mknod: a device", rows: "FW6", needs: capability(capMknod)},
		{name: "file capabilities", rows: "FW8", needs: capability(capSetFCap)},
		{name: "host name", rows: "PV9", needs: admin}, {name: "clock", rows: "TO7 PV10", blind: blindHarm},
		{name: "priority", rows: "PX7", needs: capability(capSysNice)}, {name: "real-time class", rows: "PX7", blind: "a control group without a budget for it refuses it"},
		{name: "keyring", rows: "SE4 IC4 PV8"}, {name: "add_key", rows: "IC4", blind: "a session without a keyring has none to add to"},
		{name: "ptrace", rows: "PX3 PV8"}, {name: "process_vm_readv", rows: "PX4 PV8"}, {name: "bpf", rows: "PV8", needs: admin}, {name: "perf_event_open", rows: "PV8"}, {name: "io_uring", rows: "PV8 NW12 KS6", blind: blindKernel},
		{name: "userfaultfd", rows: "IC8 PV8", needs: admin}, {name: "open_by_handle_at", rows: "FR8", needs: capability(capDACReadSearch)},
		{name: "init_module", rows: "PV9", blind: blindKernel}, {name: "kexec_load", rows: "PV9", blind: blindKernel},
		{name: "reboot", rows: "PV9", needs: capability(capSysBoot)}, {name: "swapon", rows: "PV9", needs: admin}, {name: "pivot_root", rows: "PV7", needs: admin}, {name: "accounting", rows: "PV9", needs: capability(capSysPacct)}, {name: "quota", rows: "PV9"},
		{name: "message queue", rows: "IC2"}, {name: "System V memory", rows: "IC1"},
		{name: "inotify", rows: "IC7"}, {name: "fanotify", rows: "IC7", needs: admin},
		{name: "I/O class", rows: "PX7"}, {name: "affinity", rows: "PX7"}, {name: "personality", rows: "PV10"}, {name: "ports", rows: "PV10", blind: blindHarm},
		{name: "tracer", rows: "PV14"}, {name: "memory layout", rows: "PV14", needs: capability(capSysResource)}, {name: "dumpable", rows: "PV14"},
		{name: "x32 numbers", rows: "PV11", blind: blindKernel},
	}
}
