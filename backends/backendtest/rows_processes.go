package backendtest

// processRows are about other processes, the network and what guests share.
func processRows() []Group {
	const noProxy = "guests reach no proxy: a guest has no network, or that of the operator's choice"
	return []Group{
		{"PX", "Processes, signals, tracing", []Row{
			acted("PX1", "probes every process by signal 0"),
			acted("PX2", "signals its worker, its parent and process 1"),
			acted("PX3", "traces another process"),
			acted("PX4", "reads and writes another process's memory"),
			acted("PX5", "takes a descriptor out of another process"),
			acted("PX7", "raises its priority, class, I/O class, or leaves its processors"),
			acted("PX8", "calls itself like the worker"),
			acted("PX10", "types into a terminal"),
		}},
		{"NW", "Network", []Row{
			acted("NW1", "connects to public addresses of IPv4 and IPv6"),
			acted("NW2", "connects to canaries on the host's loopback"),
			acted("NW3", "connects to every address of the host, and to the ports of engine, NATS and Postgres"),
			acted("NW4", "asks the metadata addresses of clouds"),
			acted("NW6", "opens raw, packet, ICMP and UDP sockets"),
			acted("NW7", "connects to a canary with an abstract name"),
			acted("NW8", "connects to a canary at a path, and to sockets of services"),
			acted("NW11", "uses MPTCP"),
			acted("NW12", "makes sockets by io_uring"),
			acted("NW13", "brings up interfaces, makes tunnels"),
			moot("NW14", "runs with an empty list of what may be reached", "there are no such lists: a guest has no network, or that of the operator's choice"),
			moot("NW15", "hides an address from a proxy by its spelling", noProxy),
		}},
		{"IC", "Shared objects", []Row{
			acted("IC1", "shares System V memory, semaphores and queues with another guest"),
			acted("IC2", "shares POSIX message queues with another guest"),
			acted("IC4", "leaves something in a keyring"),
			acted("IC6", "opens a vsock to a neighbour"),
			acted("IC7", "watches files by inotify and fanotify"),
			acted("IC8", "uses userfaultfd"),
			moot("IC9", "times the processor, caches and disks that it shares with a neighbour", "not defended: give tenants who must not time each other hosts of their own"),
			moot("IC10", "uses global named objects of Windows or services of macOS", "the only backend there is wasm, whose guests cannot name them"),
		}},
		{"XJ", "From one job to the next", []Row{
			acted("XJ1", "leaves changed modules and builtins").also("backends.TestParkedGuestsServeOneJobEach"),
			acted("XJ3", "leaves processes"),
			acted("XJ4", "looks for descriptors of earlier guests"),
			acted("XJ6", "uses up what is counted by user: processes, watches, pipes"),
			tested("XJ8", "gets a warm guest that another tenant has used", "backends.TestParkedGuestsServeOneJobEach"),
			tested("XJ9", "reads the memory of an earlier WASM instance", "backends/wasm.TestClones", "backends/wasm.TestMemoryIsNew"),
			acted("XJ10", "poisons compiled files that guests share"),
			tested("XJ11", "is delivered twice", "store.TestFinishIsFenced", "store.TestOneOfManyClaimsWins", "queue.TestSameJobTwiceInOneWorker"),
			tested("XJ12", "asks for another tenant's results", "store.TestTenantsAreKeptApart", "queue.TestAFilterInTheBodyOpensNoOtherTenantsResults"),
			tested("XJ13", "is confused with the container of a worker that died", "backends/docker.TestLeft", "backends/docker.TestLost"),
		}},
	}
}
