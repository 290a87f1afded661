// Package docker isolates each guest in a container of a Docker Engine: one
// with a read-only root, no capabilities, no way to gain privileges, a
// system-call filter, and limits that the engine sets.
//
// # What is carried how
//
// All goes over the streams that a client attaches, so nothing of the worker's
// host is mounted and the engine may be anywhere: on this host, in a virtual
// machine, behind a network. The first process of the container puts frames
// around the bytes of the guest's channel and streams, and reports how the
// guest ended; runner-image/guest/airlock_guest/first.py says how, and why the
// guest cannot speak for it. When the worker dies its end of the attached
// stream closes, and that process ends with everything in the container.
//
// # What a guest sees
//
// The image, read-only; /tmp, /workspace and /dev/shm, which hold limits.disk
// each; no /sys, and a /proc of its own processes without what tells of the
// host. It runs as a user that no other guest of the worker has, on a host named
// "guest", with the environment that first.py builds. It shares the engine's
// user namespace unless the engine remaps users. It has no network unless its
// job asks for the one that the operator chose.
//
// # What is left
//
// Run returns when nothing of the guest runs, and its container is removed
// soon after. What a dead worker left is removed by the next one of its host,
// at the start and every minute, and by any worker once it has been over, or
// past its deadline, for a while.
//
// # What the engine's socket means
//
// Whoever can talk to an engine can become root on its host. A worker with
// this backend holds that power; its guests do not.
package docker

import (
	"sync"

	"airlock/backends"
	"airlock/backends/internal/guestproc"
	"airlock/job"

	"github.com/rs/zerolog"
)

// Name is the backend's in jobs and results.
const Name = "docker"

// DefaultImage is the tag that dev/runner-image.sh and runner-image/Dockerfile
// give.
const DefaultImage = "airlock-runner"

// Config says how guests are run. The zero value is usable.
type Config struct {
	// Log receives what an operator should know.
	Log zerolog.Logger
	// Host is the engine's address; by default what DOCKER_HOST and its
	// siblings say, else the system's own.
	Host string
	// Images are those that jobs may have, by digest, ID or tag, the default
	// first; without any it is DefaultImage. A probe resolves them to their
	// IDs, and none is ever pulled.
	Images []string
	// Runtime is the engine's runtime for guests; by default its default. A
	// backend with a runtime is a variant, with a name of its own.
	Runtime string
	// Network is the engine's network that guests have whose jobs ask for one;
	// without it none has any. A probe tests that its guests cannot reach the
	// host, its metadata service, or private networks; dev/guest-network.sh
	// makes such a network.
	Network string
	// Cores is the rate of processor time of one guest; the default is 1.
	Cores float64
	// Project is the Compose project that guests' containers are labelled as
	// part of, so that its down --remove-orphans clears them; "" is none.
	Project string

	// patience is the usual one; tests have less.
	patience patience
	// remote has the counters read from the engine although it is on this
	// host; tests set it.
	remote bool
}

// Backend runs guests in containers.
type Backend struct {
	config Config
	name   string
	level  job.Isolation
	life   guestproc.Life[ready]
	shared *shared
	// closing ends the sweeper; sweeper is it.
	closing   chan struct{}
	closeOnce sync.Once
	sweepOnce sync.Once
	// refused is what a variant's runtime was last refused for.
	refused refusal
	sweeper sync.WaitGroup
}

var _ backends.Backend = (*Backend)(nil)

// New makes a backend. It touches neither engine nor host; Probe does.
func New(config Config) *Backend {
	if config.patience == (patience{}) {
		config.patience = usual()
	}
	if config.Cores <= 0 {
		config.Cores = 1
	}
	if len(config.Images) == 0 {
		config.Images = []string{DefaultImage}
	}
	return &Backend{
		config: config, name: nameOf(config.Runtime), level: levelOf(config.Runtime),
		shared: newShared(), closing: make(chan struct{}),
	}
}
