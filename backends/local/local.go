// Package local runs guests without any isolation, as processes of the
// worker's own user: a guest can read, change and reach all that the worker
// can. It is for development on systems that have nothing better, and refuses
// to work unless Config.AllowNoIsolation says that this is understood.
//
// What it does hold: the guest gets an environment built from nothing, a
// temporary directory of its own as home and working directory, no descriptor
// but its four, and hard limits on each process. On Linux with usable control
// groups, memory, processes and processor time of the whole tree are limited
// and everything dies with the guest. Without control groups no limit is
// offered. The tree is then found by a variable that each guest has and its
// children inherit, AIRLOCK_GUEST: a process that drops it escapes. On other
// systems the guest's process group is killed, and a process that leaves it
// escapes. There is no disk limit anywhere, and if the worker itself is killed,
// what a guest started lives on until the next worker sweeps.
//
// The variables are HOME, TMPDIR and PWD, which name the directory, PATH, and
// LANG=C.UTF-8.
package local

import (
	"airlock/backends"
	"airlock/backends/internal/guestproc"

	"github.com/rs/zerolog"
)

// Name is the backend's in jobs and results.
const Name = "local"

// Config says how guests are run.
type Config struct {
	// Log receives what an operator should know.
	Log zerolog.Logger
	// AllowNoIsolation must be set, or nothing runs.
	AllowNoIsolation bool
	// Python is the guests' interpreter; by default the first usable of
	// /usr/bin/python3, /usr/local/bin/python3 and python3 in PATH.
	Python string
	// Cores is the rate of processor time of one guest; the default is 1.
	Cores float64
}

// Backend runs guests as processes of its own user.
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
