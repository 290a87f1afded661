package docker

import (
	"fmt"
	"sync"
	"time"

	"github.com/docker/docker/api/types/system"
)

// refusalKept is how long a runtime that could start no guest is not tried
// again while nothing about it has changed.
const refusalKept = time.Hour

// refusal remembers that a runtime starts no guests. Each start that fails may
// cost the engine's host something for good: of runsc 20221219 two processes
// stay, which the engine removes with nothing. A worker probes every minute.
type refusal struct {
	mu  sync.Mutex
	key string    // guarded by mu
	at  time.Time // guarded by mu
	err error     // guarded by mu
}

// of is the error that the runtime was last refused for, or nil where it is to
// be tried.
func (r *refusal) of(f *facts, now time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil || r.key != f.runtimeKey() || now.Sub(r.at) > refusalKept {
		return nil
	}
	return r.err
}

// note remembers what became of a try.
func (r *refusal) note(f *facts, now time.Time, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.key, r.at, r.err = f.runtimeKey(), now, err
}

// runtimeKey is all that a failed start may have been due to.
func (f *facts) runtimeKey() string {
	return fmt.Sprint(f.version, f.kernel, f.cgroup, f.started, f.images.names())
}

// startedBy says what the engine runs for a runtime.
func startedBy(info system.Info, runtime string) string {
	r := info.Runtimes[runtime]
	return fmt.Sprint(r.Path, r.Args, r.Type)
}
