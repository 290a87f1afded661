package worker

import (
	"sync/atomic"

	"airlock/backends"
)

// Sandbox is a backend that probed well.
type Sandbox struct {
	Name    string
	Backend backends.Backend
	Can     backends.Capabilities
}

// Sandboxes are those that a worker offers now, in order of preference. Its
// methods may be called from several goroutines at once. The zero value offers
// none.
type Sandboxes struct{ list atomic.Pointer[[]Sandbox] }

// NewSandboxes offers the given ones.
func NewSandboxes(boxes ...Sandbox) *Sandboxes {
	s := &Sandboxes{}
	s.Store(boxes)
	return s
}

// Load returns what is offered. The caller must not change it.
func (s *Sandboxes) Load() []Sandbox {
	if list := s.list.Load(); list != nil {
		return *list
	}
	return nil
}

// Store changes what is offered from here on. An attempt that runs keeps its
// sandbox. The list is the set's then.
func (s *Sandboxes) Store(boxes []Sandbox) { s.list.Store(&boxes) }
