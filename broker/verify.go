package broker

import (
	"bytes"
	"slices"

	"airlock/job"
)

const (
	// maxSuspects and maxSuspectBytes bound the rows that are looked at again
	// to say what happened to them.
	maxSuspects     = 64
	maxSuspectBytes = 64 << 20
	// maxFaults bounds what is told of one attempt.
	maxFaults = 20
)

// A Verifier holds the recorded calls of one attempt against its chain. It is
// given them twice, so that it needs to hold none: first their links (Link),
// then whole (Call), and in the end what the attempt says (Faults).
//
// Each link is computed from the recorded one before it. So a row that was
// changed is told from those that follow it, and when every link fits, the
// first continues from Genesis and the last is the head, the chain is whole.
// Whoever can also write the head can make a chain anew: it must be compared
// with a copy that he cannot write.
type Verifier struct {
	id      job.ID
	attempt int

	links    map[int][]claim // by number
	seqs     map[int]bool
	last     int // the largest number of a link
	end      int // the link that is the head; -1 if none is
	open     int // calls without an end
	carried  int
	suspects []suspect
	held     int
	faults   []job.Fault
	more     int
}

// claim is a row that says it has a link.
type claim struct {
	seq  int
	hash []byte
	end  bool
	fits bool
}

// suspect is a link that does not fit what is recorded before it.
type suspect struct {
	call   job.Call
	number int
	end    bool
}

// NewVerifier begins with an attempt that recorded nothing.
func NewVerifier(id job.ID, attempt int) *Verifier {
	return &Verifier{id: id, attempt: attempt, links: map[int][]claim{}, seqs: map[int]bool{}}
}

// Link notes the links of a call.
func (v *Verifier) Link(c *job.Call) {
	v.seqs[c.Seq] = true
	if c.StartLink != 0 {
		v.claim(c.StartLink, claim{seq: c.Seq, hash: c.StartHash})
	}
	if c.EndLink != 0 {
		v.claim(c.EndLink, claim{seq: c.Seq, hash: c.EndHash, end: true})
	}
	if c.StartLink != 0 || c.State == job.CallReplayed {
		v.carried++
	}
	switch {
	case c.StartLink == 0 && c.EndLink == 0:
		v.fault(job.FaultAdded, c.Seq, 0, "call %d has no link", c.Seq)
	case c.EndLink == 0:
		v.open++
	}
}

func (v *Verifier) claim(number int, c claim) {
	if number < 1 {
		v.fault(job.FaultChanged, c.seq, number, "call %d has a link %d, which no call has", c.seq, number)
		return
	}
	v.links[number] = append(v.links[number], c)
	v.last = max(v.last, number)
}

// Call checks a call whose links were noted.
func (v *Verifier) Call(c *job.Call) {
	if c.StartLink != 0 {
		v.check(c, c.StartLink, false)
	}
	if c.EndLink != 0 {
		v.check(c, c.EndLink, true)
	}
}

func (v *Verifier) check(c *job.Call, number int, end bool) {
	at := slices.IndexFunc(v.links[number], func(l claim) bool { return l.seq == c.Seq && l.end == end })
	for _, prev := range v.before(number) {
		if at >= 0 && bytes.Equal(linkOf(prev, c, end), v.links[number][at].hash) {
			v.links[number][at].fits = true
			return
		}
	}
	if size := len(c.Arguments) + len(c.Answer); len(v.suspects) < maxSuspects && v.held+size <= maxSuspectBytes {
		v.suspects, v.held = append(v.suspects, suspect{*c, number, end}), v.held+size
	}
}

// before are the hashes that link number may continue from.
func (v *Verifier) before(number int) [][]byte {
	if number == 1 {
		return [][]byte{Genesis(v.id, v.attempt)}
	}
	var hashes [][]byte
	for _, l := range v.links[number-1] {
		hashes = append(hashes, l.hash)
	}
	return hashes
}

func linkOf(prev []byte, c *job.Call, end bool) []byte {
	if end {
		return endHash(prev, c)
	}
	return startHash(prev, c)
}
