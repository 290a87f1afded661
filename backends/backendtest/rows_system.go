package backendtest

// systemRows are about privileges and the kernel.
func systemRows() []Group {
	return []Group{
		{"PV", "Privileges and system calls", []Row{
			acted("PV1", "runs set-user-ID programs"),
			acted("PV2", "becomes root, or any other user or group"),
			acted("PV4", "makes namespaces: user, mount, network, processes"),
			acted("PV5", "makes a user namespace within its own"),
			acted("PV6", "mounts, by the old and the new calls"),
			acted("PV7", "changes its root, pivots it, joins namespaces"),
			acted("PV8", "calls ptrace, bpf, perf, userfaultfd, io_uring and the keyrings"),
			acted("PV9", "loads modules or kernels, reboots, swaps, accounts, sets quotas or the host's name"),
			acted("PV10", "sets the clock, asks for ports, changes descriptor tables or its personality"),
			acted("PV11", "calls by the numbers of another architecture").also("backends/internal/seccomp.TestForeignArchitectureIsKilled", "backends/internal/seccomp.TestX32IsKilled"),
			acted("PV12", "makes a call that is newer than the filter"),
			acted("PV14", "takes back no_new_privs, names a tracer, changes its memory's layout"),
			moot("PV16", "opens processes, tokens and the registry of Windows", "the only backend there is wasm, whose guests cannot name them"),
			moot("PV17", "uses services, events and tools of macOS", "no backend of macOS yet"),
		}},
		{"KS", "The kernel's surface, and the guest's posture", []Row{
			acted("KS1", "makes every system call from 0 to 600").also("backends/internal/seccomp.TestGolden"),
			acted("KS3", "is looked at by the host while it lives").also("backends/wasm.TestConfined"),
			tested("KS4", "is allowed more calls than agreed", "backends/internal/seccomp.TestBudget"),
			tested("KS5", "runs on another kernel than its level says", "backends/docker.TestOwnKernel"),
			acted("KS6", "reaches surfaces of recent kernel bugs: netlink, packet, AF_ALG, RxRPC, vsock, xfrm, io_uring"),
			tested("KS7", "is asked of an engine by a request that says too much", "backends/docker.TestBenchmark"),
		}},
	}
}
