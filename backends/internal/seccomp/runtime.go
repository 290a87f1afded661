package seccomp

import (
	"fmt"

	"golang.org/x/net/bpf"
)

// forRuntime are the calls that a Go program makes once it has all that it
// will ever open: bytes in and out, memory, threads of its own, signals, time,
// chance and waiting.
var forRuntime = []string{
	"read", "write", "readv", "writev", "pread64", "close", "fcntl", "fstat", "lseek",
	"munmap", "madvise", "mincore", "brk",
	"futex", "set_robust_list", "rseq", "membarrier", "gettid", "getpid", "getppid",
	"rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigaltstack", "restart_syscall", "tgkill",
	"exit", "exit_group",
	"clock_gettime", "clock_getres", "clock_nanosleep", "nanosleep", "gettimeofday", "time", "getrandom",
	"sched_yield", "sched_getaffinity", "getrlimit", "getrusage", "uname",
	"epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait", "epoll_pwait2", "eventfd2", "poll", "ppoll",
	"recvfrom", "recvmsg", "sendto", "sendmsg", "getsockopt", "setsockopt", "shutdown",
}

// fatalInRuntime are calls that guests of other kinds may make and such a
// program never does, but an exploit would.
var fatalInRuntime = []string{
	"execve", "fork", "vfork", "kill", "tkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_open", "pidfd_send_signal",
	"socket", "socketpair", "connect", "bind", "listen", "accept", "accept4", "link", "linkat", "symlink", "symlinkat",
}

// conditionalInRuntime are the calls that depend on an argument: a clone that
// makes a thread, and memory that is not for code.
var conditionalInRuntime = map[string]rule{
	"clone":    {arg: 0, oneOf: []uint32{goThread, libraryThread}, otherwise: Kill},
	"mmap":     {arg: 2, noneOf: protExec, otherwise: Kill},
	"mprotect": {arg: 2, noneOf: protExec, otherwise: Kill},
}

const (
	// goThread is how Go's runtime makes a thread: CLONE_VM, CLONE_FS,
	// CLONE_FILES, CLONE_SIGHAND, CLONE_THREAD and CLONE_SYSVSEM. The C
	// library, which is there in a program with cgo, adds CLONE_SETTLS,
	// CLONE_PARENT_SETTID and CLONE_CHILD_CLEARTID.
	goThread      = 0x00000100 | 0x00000200 | 0x00000400 | 0x00000800 | 0x00010000 | 0x00040000
	libraryThread = goThread | 0x00080000 | 0x00100000 | 0x00200000
	protExec      = 4
)

// RuntimeProgram is the filter of a Go program that runs a WebAssembly module,
// for one of Archs, as the kernel takes it. What a guest's filter kills for is
// fatal too, as are a new program, another process and a socket; all else that
// is not named fails with ENOSYS, after which the C library tries older calls.
func RuntimeProgram(arch string) ([]byte, error) {
	id, ok := audit[arch]
	if !ok {
		return nil, fmt.Errorf("no system-call filter for %s, only for %v", arch, Archs())
	}
	raw, err := bpf.Assemble(assemble(id, runtimeSpans(arch)))
	if err != nil {
		return nil, fmt.Errorf("assemble filter: %w", err)
	}
	return encode(raw), nil
}

// runtimeSpans covers all numbers.
func runtimeSpans(arch string) []span {
	numbers := map[string]int{}
	for number, name := range Names(arch) {
		numbers[name] = number
	}
	var calls []span
	take := func(names []string, act Action) {
		for _, name := range names {
			if number, ok := numbers[name]; ok {
				calls = append(calls, span{start: uint32(number), act: act})
			}
		}
	}
	take(forRuntime, Allow)
	take(fatalInRuntime, Kill)
	for _, c := range fatal {
		take([]string{c.name}, Kill)
	}
	for name, r := range conditionalInRuntime {
		calls = append(calls, span{start: uint32(numbers[name]), rule: &r})
	}
	return cover(calls, arch, Errno(enosys))
}
