// Package bubblewrap isolates each guest with bwrap: namespaces of every kind,
// no capabilities, a system-call filter, sized temporary file systems, an
// environment built from nothing, and a control group around it all.
//
// # What a guest sees
//
// A read-only root with the interpreter, its standard library, installed
// packages, the directories of the shared libraries it needs, the time zones,
// and its own code below /airlock. /dev holds null, zero, full, random and
// urandom. It may write to /tmp, /workspace and /dev/shm, each of which holds
// limits.disk; their number of files is bounded by limits.memory only, since
// bwrap has no option for it. There is no /sys, no shell, no /etc but for links
// of /etc/alternatives by which shared libraries are reached, and no /proc:
// bwrap can only mount a whole one, which shows the kernel's keys, symbols and
// command line, and CPython does without.
//
// It runs as uid and gid 1000 of its own user namespace, with the umask 077,
// in /workspace, on a host named "guest" without a network, with exactly these
// variables: HOME=/workspace, TMPDIR=/tmp, PWD=/workspace, LANG=C.UTF-8, PATH,
// which is the interpreter's directory, and OMP_NUM_THREADS and OPENBLAS_NUM_THREADS=1, since numeric
// libraries otherwise start a thread for each processor of the host;
// LD_LIBRARY_PATH is there only where the interpreter's libraries lie outside
// of the loader's usual directories.
//
// # Who it is on the host
//
// A worker that runs as root starts bwrap itself as an unprivileged user, a
// different one for each guest that runs at the same time, so that guests do
// not share the kernel's per-user limits: bwrap that runs as root makes every
// guest the host's root. Config.FirstUID says which. Any other worker starts
// bwrap as itself. The interpreter and the temporary directory must then be
// readable by that user.
//
// # How its end is known
//
// The kernel tells how the guest's main process ended, since Linux 6.15. On
// older kernels, and for a guest that ends before it has said anything, only
// bwrap's exit status is there, in which death by signal n and exit(128 + n)
// look the same; it is then read as the signal. Of the causes only Violated
// can be mistaken so, by a guest that exits with 159, and it harms nobody else.
//
// # Control groups
//
// Memory, processes and processor time are bounded by control groups. Without
// usable ones the backend offers the disk limit only, and says why.
package bubblewrap

import (
	"airlock/backends"
	"airlock/backends/internal/guestproc"

	"github.com/rs/zerolog"
)

// Name is the backend's in jobs and results.
const Name = "bubblewrap"

// Config says how guests are run. The zero value is usable.
type Config struct {
	// Log receives what an operator should know.
	Log zerolog.Logger
	// Bwrap is the program; by default the one in PATH.
	Bwrap string
	// Python is the guests' interpreter; by default the first usable of
	// /usr/bin/python3, /usr/local/bin/python3 and python3 in PATH.
	Python string
	// Cores is the rate of processor time of one guest; the default is 1.
	Cores float64
	// FirstUID is the first of the 1,024 uids and gids that guests have on
	// the host when the worker is root. The default is a block above
	// 1,900,000,000 that depends on the worker's pid, out of the way of
	// accounts, containers and subordinate ids; in a user namespace that
	// lacks it, the last ids that are mapped.
	FirstUID int
}

// Backend runs guests with bwrap.
type Backend struct {
	config Config
	life   guestproc.Life[ready]
}

var _ backends.Backend = (*Backend)(nil)

// New makes a backend. It touches nothing of the host; Probe does.
func New(config Config) *Backend {
	if config.Cores <= 0 {
		config.Cores = 1
	}
	return &Backend{config: config}
}
