package trace

import (
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// buffer is events that are not written yet. Times are whole microseconds since
// 1970: a reader keeps them in doubles, which hold no finer ones of today.
type buffer struct {
	text []byte
	// began is when the trace did, by both clocks: what has a monotonic
	// reading is placed by it, so that a step of the wall clock moves nothing.
	began time.Time
	// Of the slots and of the tracks of those that are ending, how many have
	// their name.
	named, ending int
}

// firstTail is the first track of those that are ending, beyond all slots.
const firstTail = 100_000

func (b *buffer) micros(t time.Time) int64 {
	return b.began.UnixMicro() + t.Sub(b.began).Microseconds()
}

// open begins an event.
func (b *buffer) open(phase, name string, track int) {
	b.text = append(b.text, ",\n{\"ph\":\""...)
	b.text = append(b.text, phase...)
	b.text = append(b.text, `","pid":1,"tid":`...)
	b.text = strconv.AppendInt(b.text, int64(track+1), 10)
	b.text = append(b.text, `,"name":`...)
	b.quote(name)
}

func (b *buffer) number(key string, n int64) {
	b.text = append(b.text, `,"`...)
	b.text = append(b.text, key...)
	b.text = append(b.text, `":`...)
	b.text = strconv.AppendInt(b.text, n, 10)
}

// quote writes a string of ours; one that is not UTF-8 is still one.
func (b *buffer) quote(s string) {
	b.text, _ = jsontext.AppendQuote(b.text, s)
}

// name gives a track its name.
func (b *buffer) name(kind, name string, track int) {
	b.open("M", kind, track)
	b.text = append(b.text, `,"args":{"name":`...)
	b.quote(name)
	b.text = append(b.text, "}}"...)
}

func (b *buffer) span(s *Span, ended time.Time) {
	for ; b.named <= s.slot; b.named++ {
		b.name("thread_name", "slot "+strconv.Itoa(b.named+1), b.named)
	}
	b.queued(s, s.at[Begun])
	if s.left.IsZero() {
		b.stay(s, "job", s.slot, s.inOrder(Claimed, phases), s.at[Begun], ended)
		return
	}
	for ; b.ending <= s.tail; b.ending++ {
		b.name("thread_name", "ending "+strconv.Itoa(b.ending+1), firstTail+b.ending)
	}
	b.stay(s, "job", s.slot, s.inOrder(Claimed, Committed), s.at[Begun], s.left)
	b.stay(s, "end of job", firstTail+s.tail, s.inOrder(Committed, phases), s.left, ended)
}

// stay is a slice of the attempt on one track, and in it those of its phases.
func (b *buffer) stay(s *Span, name string, track int, moments []Phase, from, until time.Time) {
	b.slice(name, track, from, until)
	b.args(s)
	for _, p := range moments {
		// A guest's first frame may be a little earlier than the note that
		// its code was sent; nothing may begin before its job does.
		to := later(from, s.at[p])
		b.slice(phaseNames[p], track, from, to)
		b.text = append(b.text, '}')
		from = to
	}
}

// inOrder are the moments from first to before end that happened, as they did.
func (s *Span) inOrder(first, end Phase) []Phase {
	var happened []Phase
	for p := first; p < end; p++ {
		if !s.at[p].IsZero() {
			happened = append(happened, p)
		}
	}
	slices.SortStableFunc(happened, func(a, b Phase) int { return s.at[a].Compare(s.at[b]) })
	return happened
}

// queued is the wait in the queue, by the clock of the queue's server.
func (b *buffer) queued(s *Span, begun time.Time) {
	if s.queued.IsZero() {
		return
	}
	for _, end := range []struct {
		phase string
		at    time.Time
	}{{"b", earlier(s.queued, begun)}, {"e", begun}} {
		b.open(end.phase, "queued", s.slot)
		b.number("ts", b.micros(end.at))
		b.text = append(b.text, `,"cat":"queue","id":`...)
		b.quote(s.job.String() + ":" + strconv.Itoa(s.attempt))
		b.args(s)
	}
}

// slice writes all of a complete event but its last brace.
func (b *buffer) slice(name string, track int, from, to time.Time) {
	b.open("X", name, track)
	begin := b.micros(from)
	b.number("ts", begin)
	b.number("dur", b.micros(to)-begin)
	b.text = append(b.text, `,"cat":"job"`...)
}

// args says which attempt an event belongs to, and closes it.
func (b *buffer) args(s *Span) {
	b.text = append(b.text, `,"args":{"job":`...)
	b.quote(s.job.String())
	b.number("attempt", int64(s.attempt))
	b.text = append(b.text, `,"backend":`...)
	b.quote(s.backend)
	b.text = append(b.text, `,"status":`...)
	b.quote(s.status)
	b.text = append(b.text, "}}"...)
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
