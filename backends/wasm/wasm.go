// Package wasm isolates each guest as a WebAssembly module: CPython compiled
// for WASI, run by wazero in a process of its own. It needs nothing of the
// host, neither a privilege nor a program.
//
// # What a guest is
//
// A process of this same program, for one job, which holds the module's
// runtime. The module has the memory that its limits give it, its standard
// streams, and imported functions for its channel, the clocks and chance; its
// file systems are in that process's memory, and no directory of the host is
// mounted. Deadlines, output and the channel's other end are the worker's, and
// a guest that does not end is ended with its process.
//
// Starting an interpreter takes a tenth of a second. So one is started when
// the backend is prepared, and its memory becomes the image that all guests
// begin with, each page shared until it is written to. Like forks they share
// the hash seed and the layout of that memory, which never held a job.
//
// The module is checked and compiled once. A guest's process is given one with
// empty functions in its place, for which the cache holds the real one's code,
// and maps that code from memory that all guests share, on Linux.
//
// # The second wall
//
// On Linux the process gives up what it can before the module runs: it may
// open nothing, start nothing and reach no network, and as root's it becomes
// an unprivileged user's. So a bug in the runtime is not the end.
//
// On Windows the process is in a job object, made before it does anything: its
// memory is bounded a second time, it can start nothing, and it ends with the
// worker. It keeps its user's other rights, as it does on macOS, so there the
// module's runtime is the one wall. A guest has a copy of the image.
//
// # What a guest sees
//
// The standard library as /py/stdlib.zip and the guest's own code below
// /guest, read-only, and /tmp and /workspace, which hold limits.disk each and
// one file for each 4 KiB; over that, writing fails with EIO. It has no
// threads, processes, sockets, links, native extensions, ssl, sqlite3 or
// ctypes, and integers of 32 bits where C has a long. Its variables are
// HOME=/workspace, TMPDIR=/tmp, PWD=/workspace and LANG=C.UTF-8.
package wasm

import (
	"airlock/backends"
	"airlock/backends/internal/guestproc"

	"github.com/rs/zerolog"
)

// Name is the backend's in jobs and results.
const Name = "wasm"

// NoExtensions is the label, with the value true, of what this backend offers
// and others do not say: that a guest cannot load native extensions.
const NoExtensions = "no-native-extensions"

// Config says how guests are run. Only Helper must be given.
type Config struct {
	// Helper is what Main returned in this program's main.
	Helper Helper
	// Log receives what an operator should know.
	Log zerolog.Logger
	// Python is the directory with python.wasm, stdlib.zip and manifest.json;
	// by default wasm beside this program, or bin/wasm.
	Python string
	// Cache is the directory for compiled code, which only this user may
	// reach; by default airlock/wasm-code in the user's own directory for caches,
	// or a temporary one where there is none.
	Cache string
	// Cores is the rate of processor time of one guest; the default is 1.
	Cores float64
	// FirstUID is the first of the 1,024 users that guests' processes are when
	// the worker is root, as package bubblewrap says of its own.
	FirstUID int

	// ownMemory and noGroups let tests reach what holds a process as a whole.
	ownMemory int64
	noGroups  bool
	// unheld lets tests run where a system like Windows holds no limits.
	unheld bool
	// selfTest lets tests have a probe compute something wrongly.
	selfTest string
}

// Backend runs guests as WebAssembly modules.
type Backend struct {
	config Config
	life   guestproc.Life[ready]
}

var (
	_ backends.Backend = (*Backend)(nil)
	_ backends.Parker  = (*Backend)(nil)
)

// New makes a backend. It touches nothing of the host; Probe does.
func New(config Config) *Backend {
	if config.Cores <= 0 {
		config.Cores = 1
	}
	return &Backend{config: config}
}
