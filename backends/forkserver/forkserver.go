// Package forkserver isolates each guest as a fork of a warm interpreter: the
// guest is there in two milliseconds, or at once where it was forked ahead,
// instead of the tens that an interpreter takes to start.
//
// # The tree of processes
//
//	worker
//	└─ launcher          this program again, first process of a pid namespace
//	   └─ template       Python, warmed up; never told anything of a job
//	      └─ slot        one for each guest that runs at the same time
//	         ├─ init     first process of the guest's pid namespace; only waits
//	         └─ guest    one job, then gone
//
// The launcher builds a root out of a temporary file system and read-only binds
// and drops the host's. The user, net, ipc, uts and cgroup namespaces, the
// control groups and the user of a guest are its slot's, so that it is born
// inside them and never without its limits. The pid and mount namespaces, the
// sized file systems, the resource limits, the loss of all capabilities and the
// system-call filter are the guest's own. The worker looks at each guest from
// outside before it tells it its job.
//
// # What a guest sees
//
// What a guest of bubblewrap sees (see there), with these differences: its uid
// and gid are 1000 or above; its writable file systems have a bounded number of
// files, one for each 4 KiB; more modules are loaded already, among them
// asyncio without ssl, and ctypes; sys.orig_argv is made up; asyncio counts its
// tasks on from where the template stopped; gc does not list what the template
// froze; its parent's pid is 0. random, uuid,
// secrets, os.urandom and ssl.RAND_bytes give every guest other values, and so
// does numpy.random's global generator.
//
// # What is weaker than a fresh interpreter
//
// Guests of one template share their address layout, stack canaries and hash
// seed, as threads of one program would, and could read whatever the template
// ever held. It holds no secret: its environment is made of nothing, and it
// never sees a job. Templates are replaced every few minutes; those of
// different tenants can be kept apart. A slot serves one tenant, up to a hundred
// guests, and is replaced at once after one that ran out of memory, was killed
// by the filter or by a fault, or broke the channel's protocol. A job that
// requires fresh never comes here.
package forkserver

import (
	"time"

	"github.com/rs/zerolog"
)

// Name is the backend's in jobs and results.
const Name = "forkserver"

// Config says how guests are run. All but Launcher has useful zero values.
type Config struct {
	// Launcher is what Main returned in this program's main.
	Launcher Launcher
	// Log receives what an operator should know.
	Log zerolog.Logger
	// Python is the guests' interpreter; by default the first usable of
	// /usr/bin/python3, /usr/local/bin/python3 and python3 in PATH.
	Python string
	// Cores is the rate of processor time of one guest; the default is 1.
	Cores float64
	// FirstUID is the first of the 1,024 uids and gids that templates and
	// guests have on the host when the worker is root. The default is a block
	// above 1,967,108,864 that depends on the worker's pid.
	FirstUID int
	// Templates names modules that are imported ahead, by the template's name.
	// Each is offered as the label template.NAME=true if its modules can be
	// imported and start no thread. The template without a name is always there.
	Templates map[string][]string
	// TenantTemplates gives each tenant templates of its own.
	TenantTemplates bool
	// MaxGuests and MaxAge say when a slot is replaced; the defaults are 100
	// guests and 10 minutes. A template is after MaxAge, or a hundred times
	// as many guests.
	MaxGuests int
	MaxAge    time.Duration

	// startTime bounds each step of a start.
	startTime time.Duration
}

// startTime is the default. A template with big modules takes a second, on a
// machine that has time for it.
const startTime = 30 * time.Second

func (c Config) withDefaults() Config {
	if c.Cores <= 0 {
		c.Cores = 1
	}
	if c.MaxGuests <= 0 {
		c.MaxGuests = 100
	}
	if c.MaxAge <= 0 {
		c.MaxAge = 10 * time.Minute
	}
	if c.startTime <= 0 {
		c.startTime = startTime
	}
	return c
}
