package backendtest

// fileRows are about reading, writing, secrets and what the kernel tells.
func fileRows() []Group {
	const fresh = "the guest's directories are its own and are gone with it: nothing in them is ever read or run by anybody else"
	return []Group{
		{"FR", "Reading files", []Row{
			acted("FR1", "opens a canary file outside its root by absolute path, and through a link"),
			acted("FR3", "goes through the root, cwd and fd links that /proc has of itself, of process 1 and of others"),
			acted("FR5", "reads passwd, shadow, hosts, resolv.conf and machine-id of the host"),
			acted("FR6", "reads the home directory, keys and credentials"),
			moot("FR7", "renames a file that may not be read to a name that may", "the host's files are absent, not forbidden by name"),
			acted("FR8", "opens a file by its handle instead of its path"),
			acted("FR9", "unmounts what lies over a file"),
			moot("FR11", "varies the case, form or ending of a path", "nothing is forbidden by matching the text of a path"),
			acted("FR12", "opens devices: memory, kernel log, disks, kvm, fuse"),
			acted("FR13", "looks for shells, package managers and compilers"),
		}},
		{"FW", "Writing files", []Row{
			acted("FW1", "writes in /, /etc, /usr, /lib, the interpreter's and the runtime's directories"),
			acted("FW2", "changes the standard library, the runtime, .pth files or compiled files"),
			acted("FW3", "fills its file systems past their size"),
			acted("FW5", "makes a file of its own set-user-ID and runs it"),
			acted("FW6", "makes device nodes"),
			acted("FW7", "writes the kernel's knobs: /proc/sys, /sys, control groups, core pattern"),
			acted("FW8", "gives a file capabilities or security attributes"),
			acted("FW9", "writes to the host through a link that it made"),
			moot("FW10", "leaves hooks, start files or settings of tools in its workspace", fresh),
			acted("FW12", "removes, renames or replaces what file systems are mounted on"),
		}},
		{"SE", "Secrets and environment", []Row{
			acted("SE1", "prints its whole environment"),
			acted("SE2", "reads environment and arguments of its parent, of process 1 and of others"),
			acted("SE4", "lists the kernel's keyrings"),
			acted("SE5", "looks for sockets of the engine, of agents and of buses, and for mounted tokens"),
			tested("SE6", "sends a job whose environment sets the loader's or the interpreter's variables", "job.TestPrepareRefusesInputs"),
			tested("SE7", "provokes errors of tools and of the broker, hoping for paths and addresses", "broker.TestSeedFailingToolCountsAndItsSecretsStay"),
			acted("SE9", "crashes, to leave a core file"),
			acted("SE10", "reads host name, boot id, network addresses and user names"),
			tested("SE11", "reads what a container's labels, name and environment tell", "backends/docker.TestLabels"),
		}},
		{"PS", "What /proc and /sys tell", []Row{
			acted("PS1", "lists /proc"),
			acted("PS2", "reads kcore, kallsyms, kmsg, keys, timers, interrupts and the kernel's command line"),
			acted("PS3", "reads mountinfo, looking for paths of the host").open("docker", "the kernel names the layers of its root in /proc/self/mountinfo, by paths below the engine's directory; they cannot be reached by them"),
			acted("PS5", "reads the tables of network connections and of sockets"),
			acted("PS7", "writes to sysrq, acpi, bus and irq"),
			acted("PS8", "reads counters of power and temperature"),
			acted("PS9", "reads meminfo, loadavg, cpuinfo and stat, to know the host or to time neighbours"),
			acted("PS10", "replaces /dev/null and other nodes by links"),
		}},
	}
}
