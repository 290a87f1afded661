package docker

import (
	"crypto/rand"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
)

// shared is what all guests of a backend share. Its zero value is not usable.
type shared struct {
	// starts bounds how many containers start at once: more only wait for
	// each other, since a start is processor time.
	starts chan struct{}
	// token keeps the names of backends of one worker apart, made those of
	// one backend.
	token   string
	made    atomic.Int64
	clearer *clearer
	ids     *ids
	// wanted holds the names of containers that a Run still sees to.
	wanted sync.Map
}

func newShared() *shared {
	return &shared{clearer: newClearer(), ids: newIDs(), starts: make(chan struct{}, runtime.NumCPU()), token: strings.ToLower(rand.Text()[:8])}
}

// newName is a container's, and what its owner is told by. forget is called
// when the container is gone, or is the sweeper's.
func (r *ready) newName() (name string, forget func()) {
	s := r.shared
	name = r.owner.Name(fmt.Sprintf("%s.%d", s.token, s.made.Add(1)))
	s.wanted.Store(name, true)
	return name, func() { s.wanted.Delete(name) }
}

// lost reports whether the container is one of ours that no Run sees to: an
// engine was away when it should have been removed.
func (s *shared) lost(name string) bool {
	_, wanted := s.wanted.Load(name)
	return !wanted && strings.Contains(name, "-"+s.token+".")
}
