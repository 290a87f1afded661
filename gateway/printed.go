package gateway

import (
	"unicode/utf8"

	"airlock/job"
)

// printedPiece is how much of a result's output is in one event, as much as a
// worker tells at once.
const printedPiece = 32 << 10

// printed is how far the output of an attempt was sent. News of output and of
// an end come by ways of their own, so that the end may be heard first; the
// result then has what is missing.
type printed struct {
	// live is set once the client follows a job that goes on. One that came after
	// its end gets no output but the result's.
	live bool
	// fresh: the client has followed the attempt since its claim.
	fresh bool
	ends  map[string]int64
}

// begin starts over for another attempt.
func (p *printed) begin() { p.fresh, p.ends = true, nil }

func (p *printed) add(stream string, end int64) {
	if p.ends == nil {
		p.ends = map[string]int64{}
	}
	p.ends[stream] = end
}

// rest is where in a stream that begins which was not sent. It is not ok if
// nobody knows: the client has come in the midst of an attempt, and nothing was
// printed since.
func (p *printed) rest(stream string) (from int64, ok bool) {
	from, heard := p.ends[stream]
	return max(0, from), p.live && (heard || p.fresh)
}

// print sends output.
func (f *follower) print(e JobEvent) {
	f.printed.add(e.Output.Stream, e.Output.Offset+int64(len(e.Output.Data)))
	f.out.event("", e.name, e)
}

// printRest sends what a guest printed last and nobody has heard of.
func (f *follower) printRest(r *job.Result) {
	for _, s := range []struct {
		name string
		text []byte
	}{{"stdout", r.Stdout}, {"stderr", r.Stderr}} {
		from, ok := f.printed.rest(s.name)
		for ok && from < int64(len(s.text)) {
			piece := firstPiece(s.text[from:])
			f.print(JobEvent{
				Job: r.Job, Batch: r.Batch, At: r.Finished, Attempt: r.Attempt, name: eventOutput,
				Output: &Output{Stream: s.name, Offset: from, Data: piece},
			})
			from += int64(len(piece))
		}
	}
}

// firstPiece is the beginning of a text, without a part of a character at its
// end unless there is nothing else.
func firstPiece(text []byte) []byte {
	if len(text) <= printedPiece {
		return text
	}
	for end := printedPiece; end > printedPiece-utf8.UTFMax; end-- {
		if utf8.RuneStart(text[end]) {
			return text[:end]
		}
	}
	return text[:printedPiece]
}
