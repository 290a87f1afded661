package seccomp

// call is a system call's name and its numbers.
type call struct {
	name         string
	amd64, arm64 int
}

// none is the number of a call that an architecture lacks.
const none = -1

func (c call) number(arch string) int {
	if arch == "arm64" {
		return c.arm64
	}
	return c.amd64
}

// table is every call that is named, in no order.
func table(arch string) []span {
	var all []span
	take := func(c call, act Action, r *rule) {
		if n := c.number(arch); n != none {
			all = append(all, span{start: uint32(n), act: act, rule: r})
		}
	}
	for act, calls := range map[Action][]call{Allow: allowed, Errno(eperm): refused, Kill: fatal} {
		for _, c := range calls {
			take(c, act, nil)
		}
	}
	for i := range conditional {
		take(conditional[i].call, 0, &conditional[i].rule)
	}
	return all
}

// Names maps an architecture's numbers to the names of the calls in the table.
func Names(arch string) map[int]string {
	names := map[int]string{}
	for _, calls := range [][]call{allowed, refused, fatal} {
		for _, c := range calls {
			names[c.number(arch)] = c.name
		}
	}
	for _, c := range conditional {
		names[c.number(arch)] = c.name
	}
	delete(names, none)
	return names
}

// allowed are the calls that a guest may make with any arguments.
var allowed = []call{
	// Bytes in and out.
	{"read", 0, 63},
	{"write", 1, 64},
	{"readv", 19, 65},
	{"writev", 20, 66},
	{"pread64", 17, 67},
	{"pwrite64", 18, 68},
	{"preadv", 295, 69},
	{"pwritev", 296, 70},
	{"preadv2", 327, 286},
	{"pwritev2", 328, 287},
	{"close", 3, 57},
	{"close_range", 436, 436},
	{"lseek", 8, 62},
	{"fcntl", 72, 25},
	{"dup", 32, 23},
	{"dup2", 33, none},
	{"dup3", 292, 24},
	{"pipe", 22, none},
	{"pipe2", 293, 59},
	{"poll", 7, none},
	{"ppoll", 271, 73},
	{"select", 23, none},
	{"pselect6", 270, 72},
	{"sendfile", 40, 71},
	{"copy_file_range", 326, 285},
	// Files.
	{"open", 2, none},
	{"openat", 257, 56},
	{"creat", 85, none},
	{"stat", 4, none},
	{"lstat", 6, none},
	{"newfstatat", 262, 79},
	{"fstat", 5, 80},
	{"statx", 332, 291},
	{"access", 21, none},
	{"faccessat", 269, 48},
	{"faccessat2", 439, 439},
	{"readlink", 89, none},
	{"readlinkat", 267, 78},
	{"getdents", 78, none},
	{"getdents64", 217, 61},
	{"getcwd", 79, 17},
	{"chdir", 80, 49},
	{"fchdir", 81, 50},
	{"statfs", 137, 43},
	{"fstatfs", 138, 44},
	{"umask", 95, 166},
	{"ftruncate", 77, 46},
	{"truncate", 76, 45},
	{"fsync", 74, 82},
	{"fdatasync", 75, 83},
	{"sync_file_range", 277, 84},
	{"fadvise64", 221, 223},
	{"mkdir", 83, none},
	{"mkdirat", 258, 34},
	{"unlink", 87, none},
	{"unlinkat", 263, 35},
	{"rmdir", 84, none},
	{"rename", 82, none},
	{"renameat", 264, 38},
	{"renameat2", 316, 276},
	{"chmod", 90, none},
	{"fchmod", 91, 52},
	{"fchmodat", 268, 53},
	{"fchmodat2", 452, 452},
	{"fchown", 93, 55},
	{"utime", 132, none},
	{"utimes", 235, none},
	{"futimesat", 261, none},
	{"utimensat", 280, 88},
	{"flock", 73, 32},
	{"fallocate", 285, 47},
	{"link", 86, none},
	{"linkat", 265, 37},
	{"symlink", 88, none},
	{"symlinkat", 266, 36},
	{"getxattr", 191, 8},
	{"lgetxattr", 192, 9},
	{"fgetxattr", 193, 10},
	{"listxattr", 194, 11},
	{"llistxattr", 195, 12},
	{"flistxattr", 196, 13},
	// Memory.
	{"mmap", 9, 222},
	{"munmap", 11, 215},
	{"mprotect", 10, 226},
	{"mremap", 25, 216},
	{"madvise", 28, 233},
	{"brk", 12, 214},
	{"mincore", 27, 232},
	{"msync", 26, 227},
	{"mlock", 149, 228},
	{"mlock2", 325, 284},
	{"munlock", 150, 229},
	// Threads and identity.
	{"futex", 202, 98},
	{"set_robust_list", 273, 99},
	{"get_robust_list", 274, 100},
	{"set_tid_address", 218, 96},
	{"rseq", 334, 293},
	{"membarrier", 324, 283},
	{"gettid", 186, 178},
	{"getpid", 39, 172},
	{"getppid", 110, 173},
	{"getuid", 102, 174},
	{"geteuid", 107, 175},
	{"getgid", 104, 176},
	{"getegid", 108, 177},
	{"getresuid", 118, 148},
	{"getresgid", 120, 150},
	{"getgroups", 115, 158},
	{"getpgrp", 111, none},
	{"getpgid", 121, 155},
	{"getsid", 124, 156},
	{"setpgid", 109, 154},
	{"setsid", 112, 157},
	{"capget", 125, 90},
	{"arch_prctl", 158, none},
	// Signals.
	{"rt_sigaction", 13, 134},
	{"rt_sigprocmask", 14, 135},
	{"rt_sigreturn", 15, 139},
	{"rt_sigpending", 127, 136},
	{"rt_sigtimedwait", 128, 137},
	{"rt_sigsuspend", 130, 133},
	{"rt_sigqueueinfo", 129, 138},
	{"rt_tgsigqueueinfo", 297, 240},
	{"sigaltstack", 131, 132},
	{"restart_syscall", 219, 128},
	{"pause", 34, none},
	{"kill", 62, 129},
	{"tkill", 200, 130},
	{"tgkill", 234, 131},
	{"signalfd", 282, none},
	{"signalfd4", 289, 74},
	{"alarm", 37, none},
	{"getitimer", 36, 102},
	{"setitimer", 38, 103},
	{"timer_create", 222, 107},
	{"timer_settime", 223, 110},
	{"timer_gettime", 224, 108},
	{"timer_getoverrun", 225, 109},
	{"timer_delete", 226, 111},
	{"timerfd_create", 283, 85},
	{"timerfd_settime", 286, 86},
	{"timerfd_gettime", 287, 87},
	// Processes; the pids cgroup counts them.
	{"fork", 57, none},
	{"vfork", 58, none},
	{"execve", 59, 221},
	{"wait4", 61, 260},
	{"waitid", 247, 95},
	{"exit", 60, 93},
	{"exit_group", 231, 94},
	{"pidfd_open", 434, 434},
	{"pidfd_send_signal", 424, 424},
	// Time, chance and facts.
	{"clock_gettime", 228, 113},
	{"clock_getres", 229, 114},
	{"clock_nanosleep", 230, 115},
	{"nanosleep", 35, 101},
	{"gettimeofday", 96, 169},
	{"time", 201, none},
	{"getrandom", 318, 278},
	{"uname", 63, 160},
	{"sysinfo", 99, 179},
	{"getrusage", 98, 165},
	{"times", 100, 153},
	{"getcpu", 309, 168},
	{"sched_yield", 24, 124},
	{"sched_getaffinity", 204, 123},
	{"sched_getscheduler", 145, 120},
	{"sched_getparam", 143, 121},
	{"sched_getattr", 315, 275},
	{"sched_get_priority_max", 146, 125},
	{"sched_get_priority_min", 147, 126},
	{"sched_rr_get_interval", 148, 127},
	{"getpriority", 140, 141},
	{"getrlimit", 97, 163},
	{"setrlimit", 160, 164},
	// Waiting.
	{"epoll_create", 213, none},
	{"epoll_create1", 291, 20},
	{"epoll_ctl", 233, 21},
	{"epoll_ctl_old", 214, none},
	{"epoll_wait", 232, none},
	{"epoll_wait_old", 215, none},
	{"epoll_pwait", 281, 22},
	{"epoll_pwait2", 441, 441},
	{"eventfd", 284, none},
	{"eventfd2", 290, 19},
	// Sockets that exist already.
	{"sendto", 44, 206},
	{"recvfrom", 45, 207},
	{"sendmsg", 46, 211},
	{"recvmsg", 47, 212},
	{"sendmmsg", 307, 269},
	{"recvmmsg", 299, 243},
	{"getsockname", 51, 204},
	{"getpeername", 52, 205},
	{"getsockopt", 55, 209},
	{"setsockopt", 54, 208},
	{"shutdown", 48, 210},
	{"bind", 49, 200},
	{"listen", 50, 201},
	{"accept", 43, 202},
	{"accept4", 288, 242},
	{"connect", 42, 203},
}
