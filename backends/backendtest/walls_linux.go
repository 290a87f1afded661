package backendtest

// Reasons why an attack is not shown to get through without a wall.
const (
	blindHarm    = "it would harm the host"
	blindKernel  = "kernels are built with or without it"
	blindAlready = "every backend prevents it"
)

// walls are the stories of guests that want to get at the host, or at each
// other.
func walls() []story {
	return []story{
		{
			name: "wall: network", hostile: true, code: program("network.py"), arrange: openCanaries,
			attacks: []attack{
				{name: "tcp4"}, {name: "tcp6", needs: ipv6}, {name: "udp"}, {name: "unix"}, {name: "abstract"},
				{name: "public address", blind: "the test sends nothing beyond its host"},
				{name: "raw socket", needs: capability(capNetRaw)}, {name: "packet socket", needs: capability(capNetRaw)},
				{name: "netlink"}, {name: "kernel crypto socket", blind: blindKernel}, {name: "vsock", blind: blindKernel},
			},
		},
		{
			name: "wall: files", hostile: true, code: program("files.py"), arrange: canaryFile,
			attacks: []attack{
				{name: "shadow", needs: capability(capDACOverride)}, {name: "canary file"}, {name: "canary file by a link"},
				{name: "canary file by another's root", needs: capability(capSysPtrace)},
				{name: "the host's /etc"}, {name: "host name"},
				{name: "write to the host"}, {name: "write to the system", blind: blindHarm},
				{name: "change the standard library", blind: blindHarm},
				{name: "kernel knobs", needs: capability(capSysAdmin)}, {name: "kernel secrets"}, {name: "/sys"}, {name: "cgroups"},
				{name: "devices", needs: capability(capSysAdmin)}, {name: "sockets of services", blind: "hosts differ in what runs"},
			},
		},
		{
			name: "wall: secrets", hostile: true, code: program("secrets.py"),
			arrange: func(s *stage) { victim(s); s.vars["SECRET"] = secretValue },
			attacks: []attack{
				{name: "own environment", blind: blindAlready}, {name: "environment of another process"},
				{name: "core files", blind: blindAlready},
			},
		},
		{
			name: "wall: processes of the host", hostile: true, code: program("processes.py"), arrange: exposeVictim,
			attacks: []attack{
				{name: "found in /proc"}, {name: "signal 0"}, {name: "trace", needs: capability(capSysPtrace)}, {name: "memory map"},
				{name: "pidfd"}, {name: "priority of another"}, {name: "kill"},
			},
		},
		{
			name: "wall: system calls", hostile: true, code: program("system.py"),
			attacks: systemCalls(),
		},
		{
			name: "wall: posture", code: program("posture.py"), arrange: posture,
			attacks: []attack{
				{name: "root inside", needs: capability(capSetUID)}, {name: "root outside", needs: capability(capSetUID)},
				{name: "capabilities", needs: capability(capSetUID)}, {name: "capabilities to be had"},
				{name: "no system-call filter"}, {name: "may gain privileges", blind: blindAlready},
				{name: "the host's namespaces"},
			},
		},
		{
			name: "wall: what an earlier guest left", code: program("look.py"), arrange: earlierGuest,
			attacks: []attack{
				{name: "/tmp"}, {name: "/dev/shm"}, {name: "/var/tmp"}, {name: "/workspace", blind: "every backend gives each guest its own"},
			},
		},
		{
			name: "wall: a guest beside it", hostile: true, code: program("prowler.py"), arrange: neighbour,
			attacks: []attack{{name: "found in /proc"}, {name: "abstract socket"}, {name: "loopback"}, {name: "kill everybody", blind: blindHarm}},
		},
	}
}

func systemCalls() []attack {
	admin := capability(capSysAdmin)
	return []attack{
		{name: "mount", needs: admin}, {name: "fsopen", needs: admin}, {name: "open_tree", needs: admin}, {name: "mount_setattr"},
		{name: "unmount", blind: blindHarm},
		{name: "namespace: mount", needs: admin}, {name: "namespace: network", needs: admin}, {name: "namespace: pid", needs: admin},
		{name: "namespace: user", needs: userNamespaces}, {name: "setns"},
		{name: "chroot", needs: capability(capSysChroot)},
		{name: "setuid 0", needs: capability(capSetUID)}, {name: "setuid another", needs: capability(capSetUID)},
		{name: "setgid 0", needs: capability(capSetUID)}, {name: "setgroups", needs: capability(capSetUID)},
		{name: "chown", needs: capability(capChown)}, {name: "mknod: a device", needs: capability(capMknod)},
		{name: "file capabilities", needs: capability(capSetFCap)},
		{name: "host name", needs: admin}, {name: "clock", blind: blindHarm},
		{name: "priority", needs: capability(capSysNice)}, {name: "real-time class", blind: "a control group without a budget for it refuses it"},
		{name: "keyring"}, {name: "add_key", blind: "a session without a keyring has none to add to"},
		{name: "ptrace"}, {name: "process_vm_readv"}, {name: "bpf", needs: admin}, {name: "perf_event_open"}, {name: "io_uring", blind: blindKernel},
		{name: "userfaultfd", needs: admin}, {name: "open_by_handle_at", needs: capability(capDACReadSearch)},
		{name: "init_module", blind: blindKernel}, {name: "kexec_load", blind: blindKernel},
		{name: "reboot", needs: capability(capSysBoot)}, {name: "swapon", needs: admin}, {name: "x32 numbers", blind: blindKernel},
	}
}
