package backendtest

import (
	"bytes"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// stream takes one of the guest's output streams and checks what Task
// promises of it: one writer at a time, none after Run.
type stream struct {
	// first, where it is set, is closed at the first write.
	first   chan struct{}
	once    sync.Once
	overlap atomic.Bool
	late    atomic.Bool

	// mu guards all below.
	mu    sync.Mutex
	buf   bytes.Buffer
	ended bool
}

// Write implements io.Writer.
func (s *stream) Write(p []byte) (int, error) {
	if !s.mu.TryLock() {
		s.overlap.Store(true)
		s.mu.Lock()
	}
	defer s.mu.Unlock()
	if s.ended {
		s.late.Store(true)
	}
	if s.first != nil && len(p) > 0 {
		s.once.Do(func() { close(s.first) })
	}
	return s.buf.Write(p)
}

func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
}

func (s *stream) bytes() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.buf.Bytes())
}

// head is enough of the stream to show why a story failed.
func (s *stream) head() []byte {
	all := s.bytes()
	return all[:min(len(all), 2000)]
}

func (s *stream) check(t *testing.T, name string) {
	t.Helper()
	if s.overlap.Load() {
		t.Errorf("%s was written by two goroutines at once", name)
	}
	if s.late.Load() {
		t.Errorf("%s was written after Run had returned", name)
	}
}
