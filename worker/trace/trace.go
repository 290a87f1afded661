// Package trace writes where the time of each attempt went, as a Chrome trace:
// a JSON array that chrome://tracing and ui.perfetto.dev open.
//
// Each attempt is one slice on the track of the slot that ran it, and in it
// one slice for each phase, named for the moment that it leads to. What follows
// once it has left the slot is a second slice, on a track of those that are
// ending. Its time in the queue, which overlaps what the slot did before, is an
// asynchronous slice of its own. Nothing that a submitter or a guest wrote enters the file.
package trace

import (
	"sync"
	"time"

	"airlock/job"
)

// Phase is a moment in the life of an attempt.
type Phase int

// The moments, in their order; but an acknowledgement may come before or after
// the announcement. Those that did not happen are left out.
const (
	// Begun is when a slot took the delivery up.
	Begun Phase = iota
	Claimed
	// Ready is the guest's hello.
	Ready
	// Sent is when the guest had its code.
	Sent
	// First is the first byte of output, or of a frame, after that.
	First
	// Result is when the guest's result arrived.
	Result
	// Gone is when nothing was left of the guest.
	Gone
	Committed
	Acknowledged
	Announced
	phases
)

var phaseNames = [phases]string{
	Claimed: "claimed", Ready: "guest ready", Sent: "code sent", First: "first byte", Result: "result",
	Gone: "guest gone", Committed: "committed", Acknowledged: "acknowledged", Announced: "announced",
}

// Span is one attempt on its way. A nil Span takes everything and does
// nothing, at no cost: it is what a nil File begins. Its methods may be called
// from several goroutines at once.
type Span struct {
	file   *File
	job    job.ID
	queued time.Time
	slot   int

	mu      sync.Mutex
	at      [phases]time.Time // guarded by mu, as all below
	attempt int
	backend string
	status  string
	left    time.Time // when the slot was left; zero if it was not
	tail    int       // the track since then
}

// Begin takes the next free track for a delivery that entered the queue at the
// given time. The caller ends the span.
func (f *File) Begin(id job.ID, queued time.Time) *Span {
	if f == nil {
		return nil
	}
	s := &Span{file: f, job: id, queued: queued, slot: f.slots.take()}
	s.at[Begun] = time.Now()
	return s
}

// Claim notes that the delivery became an attempt.
func (s *Span) Claim(attempt int, backend string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attempt, s.backend = attempt, backend
	s.at[Claimed] = time.Now()
}

// Mark notes that the moment is now.
func (s *Span) Mark(p Phase) {
	if s == nil {
		return
	}
	s.MarkAt(p, time.Now())
}

// MarkAt notes when the moment was. Of two the first counts; the zero time
// says that it was not.
func (s *Span) MarkAt(p Phase, at time.Time) {
	if s == nil || at.IsZero() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at[p].IsZero() || at.Before(s.at[p]) {
		s.at[p] = at
	}
}

// Status says what became of the attempt, in a word of ours.
func (s *Span) Status(status string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = status
}

// Leave says that the attempt has left its slot: the phases from here on are on
// another track, since the slot's is the next job's.
func (s *Span) Leave() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.left.IsZero() {
		return
	}
	s.left, s.tail = time.Now(), s.file.tails.take()
	s.file.slots.give(s.slot)
}

// End writes the span and frees its track. Marks that come later are lost.
func (s *Span) End() {
	if s == nil {
		return
	}
	ended := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.file.write(func(b *buffer) { b.span(s, ended) })
	if s.left.IsZero() {
		s.file.slots.give(s.slot)
	} else {
		s.file.tails.give(s.tail)
	}
}

// tracks hands out the lowest free number, so that there are as many tracks as
// slots were ever busy at once.
type tracks struct {
	mu   sync.Mutex
	busy []bool // guarded by mu
}

func (t *tracks) take() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, busy := range t.busy {
		if !busy {
			t.busy[i] = true
			return i
		}
	}
	t.busy = append(t.busy, true)
	return len(t.busy) - 1
}

func (t *tracks) give(i int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.busy[i] = false
}
