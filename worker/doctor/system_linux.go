package doctor

// systemRoot is where the file system begins.
const systemRoot = "/"

// systemChecks are those of a Linux kernel.
func systemChecks() []check {
	return append(sysctlChecks(),
		check{"core dumps", coreDumps},
		check{"apparmor userns", appArmorUserns},
		check{"cgroups", cgroups},
		check{"cgroup delegation", delegation},
		check{"swap", swap},
		check{"processor flaws", processorFlaws},
		check{"hyper-threads", hyperThreads},
		check{"kernel version", kernelVersion},
	)
}
