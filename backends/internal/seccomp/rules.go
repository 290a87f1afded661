package seccomp

// rule allows a call by one of its arguments: if it is oneOf, or, where noneOf
// is set, if it has none of those bits.
type rule struct {
	arg       uint32
	oneOf     []uint32
	noneOf    uint32
	otherwise Action
}

// conditional are the calls that depend on an argument.
var conditional = []struct {
	call
	rule rule
}{
	{call{"clone", 56, 220}, rule{arg: 0, noneOf: newNamespaces, otherwise: Errno(eperm)}},
	{call{"socket", 41, 198}, rule{arg: 0, oneOf: []uint32{afUnix}, otherwise: Errno(eperm)}},
	{call{"socketpair", 53, 199}, rule{arg: 0, oneOf: []uint32{afUnix}, otherwise: Errno(eperm)}},
	// A program that asks whether a descriptor is a terminal hears that it
	// is not, whatever the request; TIOCSTI and its like are among the rest.
	{call{"ioctl", 16, 29}, rule{arg: 1, oneOf: ioctls, otherwise: Errno(enotty)}},
	{call{"prctl", 157, 167}, rule{arg: 0, oneOf: prctls, otherwise: Errno(eperm)}},
	// Only a process's own limits, and the hard ones hold.
	{call{"prlimit64", 302, 261}, rule{arg: 0, oneOf: []uint32{0}, otherwise: Errno(eperm)}},
}

const (
	afUnix  = 1
	afInet  = 2
	afInet6 = 10
)

// newNamespaces are the CLONE_NEW… flags that clone knows: mount, cgroup, uts,
// ipc, user, pid and net. CLONE_NEWTIME is for clone3 and unshare only.
const newNamespaces = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000

var ioctls = []uint32{
	0x5401,     // TCGETS
	0x802c542a, // TCGETS2
	0x5413,     // TIOCGWINSZ
	0x541b,     // FIONREAD
	0x5421,     // FIONBIO
	0x5450,     // FIONCLEX
	0x5451,     // FIOCLEX
}

// prctls name a thread, read facts, and let bwrap and libraries set up a
// process. Left out are those that weaken one: dumpable, the ptracer, the
// memory map, capabilities, securebits, speculation and a filter of its own.
var prctls = []uint32{
	1,          // PR_SET_PDEATHSIG
	2,          // PR_GET_PDEATHSIG
	3,          // PR_GET_DUMPABLE
	15,         // PR_SET_NAME
	16,         // PR_GET_NAME
	21,         // PR_GET_SECCOMP
	23,         // PR_CAPBSET_READ
	29,         // PR_SET_TIMERSLACK
	30,         // PR_GET_TIMERSLACK
	38,         // PR_SET_NO_NEW_PRIVS
	39,         // PR_GET_NO_NEW_PRIVS
	40,         // PR_GET_TID_ADDRESS
	41,         // PR_SET_THP_DISABLE
	42,         // PR_GET_THP_DISABLE
	0x53564d41, // PR_SET_VMA
}
