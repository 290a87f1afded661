package broker

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"airlock/job"
)

// Faults says what is wrong, by call, and how much there is of it in all: the
// list may be cut. An attempt without a head is held against itself only.
func (v *Verifier) Faults(sealed job.Sealed) (faults []job.Fault, all int) {
	hasHead := sealed.Head != "" || mustHaveHead(sealed)
	v.end = v.last
	if hasHead {
		v.end = v.findHead(sealed.Head)
	}
	v.explainChanges()
	v.explainDoubles()
	v.explainGaps(sealed)
	if hasHead {
		v.explainHead(sealed)
	}
	slices.SortStableFunc(v.faults, func(a, b job.Fault) int { return cmp.Compare(a.Seq, b.Seq) })
	return v.faults, len(v.faults) + v.more
}

// mustHaveHead: an attempt with these ends had a guest whose calls were all
// recorded.
func mustHaveHead(s job.Sealed) bool {
	return s.Status == job.StatusOK || s.Outcome == "finished" && s.Status != job.StatusInfraError && s.ToolCalls > 0
}

func (v *Verifier) fault(kind job.FaultKind, seq, link int, format string, args ...any) {
	if len(v.faults) >= maxFaults {
		v.more++
		return
	}
	v.faults = append(v.faults, job.Fault{
		Job: v.id, Attempt: v.attempt, Kind: kind, Seq: seq, Link: link, What: fmt.Sprintf(format, args...),
	})
}

// explainChanges names the rows with links that do not fit.
func (v *Verifier) explainChanges() {
	v.clearFollowers()
	type ends struct{ start, end *suspect }
	rows := map[int]*ends{}
	for number, claims := range v.links {
		if v.end >= 0 && number > v.end {
			continue // see explainTail
		}
		for i := range claims {
			if c := claims[i]; !c.fits && !v.beaten(number) && len(v.before(number)) > 0 {
				if rows[c.seq] == nil {
					rows[c.seq] = &ends{}
				}
				s := v.suspectAt(number, c)
				if c.end {
					rows[c.seq].end = s
				} else {
					rows[c.seq].start = s
				}
			}
		}
	}
	for _, seq := range sortedKeys(rows) {
		v.explainRow(seq, rows[seq].start, rows[seq].end)
	}
}

func (v *Verifier) suspectAt(number int, c claim) *suspect {
	for i := range v.suspects {
		if s := &v.suspects[i]; s.number == number && s.call.Seq == c.seq && s.end == c.end {
			return s
		}
	}
	return &suspect{number: number, end: c.end, call: job.Call{Seq: c.seq}}
}

// beaten reports whether another row has the link by right.
func (v *Verifier) beaten(number int) bool {
	return slices.ContainsFunc(v.links[number], func(l claim) bool { return l.fits })
}

// clearFollowers finds links whose hash alone was changed: what follows fits
// the hash that the row should have.
func (v *Verifier) clearFollowers() {
	for _, s := range v.suspects {
		for _, earlier := range v.suspects {
			if earlier.number != s.number-1 {
				continue
			}
			for _, prev := range v.before(earlier.number) {
				if bytes.Equal(linkOf(linkOf(prev, &earlier.call, earlier.end), &s.call, s.end), v.hashOf(s)) {
					v.fit(s)
				}
			}
		}
	}
}

func (v *Verifier) hashOf(s suspect) []byte {
	if s.end {
		return s.call.EndHash
	}
	return s.call.StartHash
}

func (v *Verifier) fit(s suspect) {
	for i, l := range v.links[s.number] {
		if l.seq == s.call.Seq && l.end == s.end {
			v.links[s.number][i].fits = true
		}
	}
}

func (v *Verifier) explainRow(seq int, start, end *suspect) {
	first := start
	if first == nil {
		first = end
	}
	if was := v.seqBefore(first); was != 0 {
		v.fault(job.FaultMoved, seq, first.number, "call %d is the row of call %d", seq, was)
		return
	}
	switch {
	case start != nil && end != nil:
		v.fault(job.FaultChanged, seq, start.number,
			"call %d does not fit links %d (start) and %d (end): its tool, arguments, schema or start time was changed", seq, start.number, end.number)
	case end != nil:
		v.fault(job.FaultChanged, seq, end.number,
			"call %d does not fit link %d (end): its state, answer, code, message, detail, provider or end time was changed, or the hash", seq, end.number)
	default:
		v.fault(job.FaultChanged, seq, start.number, "call %d does not fit link %d (start): the hash was changed", seq, start.number)
	}
}

// seqBefore tries the numbers of the other suspects and of the calls that are
// missing; zero if the row fits none.
func (v *Verifier) seqBefore(s *suspect) int {
	if s.call.Job != v.id {
		return 0 // not held
	}
	try := v.missingSeqs(maxSuspects)
	for _, other := range v.suspects {
		try = append(try, other.call.Seq)
	}
	for _, seq := range try {
		c := s.call
		c.Seq = seq
		for _, prev := range v.before(s.number) {
			if seq != s.call.Seq && bytes.Equal(linkOf(prev, &c, s.end), v.hashOf(*s)) {
				return seq
			}
		}
	}
	return 0
}

// explainDoubles names the rows that claim a link which is another's.
func (v *Verifier) explainDoubles() {
	for _, number := range sortedKeys(v.links) {
		claims := v.links[number]
		if len(claims) < 2 {
			continue
		}
		owner := slices.IndexFunc(claims, func(l claim) bool { return l.fits })
		for i, l := range claims {
			if i != owner && owner >= 0 {
				v.fault(job.FaultAdded, l.seq, number, "call %d claims link %d, which is call %d's", l.seq, number, claims[owner].seq)
			}
		}
	}
}

// explainGaps names what is missing among what is there. The worker of an
// attempt without a head may have died before it wrote the end of an open call.
func (v *Verifier) explainGaps(sealed job.Sealed) {
	missing := v.missingLinks()
	seqs := v.missingSeqs(maxFaults)
	unsealed := sealed.Head == "" && !mustHaveHead(sealed)
	switch {
	case sealed.Outcome == "running": // what is missing may be on its way
		return
	case len(seqs) > 0 && unsealed:
		v.fault(job.FaultRemoved, seqs[0], first(missing), "calls %s are missing: they were removed, or the worker died before it wrote them%s",
			numbers(seqs), v.linksText(missing))
	case len(seqs) > 0:
		v.fault(job.FaultRemoved, seqs[0], first(missing), "calls %s were removed%s", numbers(seqs), v.linksText(missing))
	case unsealed && len(missing) <= v.open:
		return
	case len(missing) > 0:
		v.fault(job.FaultRemoved, 0, missing[0], "links %s were removed from their calls", numbers(missing))
	}
	for _, number := range missing {
		for _, l := range v.links[number+1] {
			if !l.fits {
				v.fault(job.FaultUnchecked, l.seq, number+1, "link %d of call %d cannot be checked without link %d", number+1, l.seq, number)
			}
		}
	}
}

func (v *Verifier) linksText(missing []int) string {
	if len(missing) == 0 {
		return ""
	}
	return ", and with them links " + numbers(missing)
}

func (v *Verifier) missingLinks() []int {
	var missing []int
	for number := 1; number < v.last && len(missing) < maxSuspects; number++ {
		if len(v.links[number]) == 0 {
			missing = append(missing, number)
		}
	}
	return missing
}

// missingSeqs are the first calls that are not there though later ones are.
func (v *Verifier) missingSeqs(most int) []int {
	var missing []int
	for seq, seen := 1, 0; seen < len(v.seqs) && len(missing) < most; seq++ {
		if v.seqs[seq] {
			seen++
			continue
		}
		missing = append(missing, seq)
	}
	return missing
}

// findHead returns the link whose hash is the head; -1 if there is none.
func (v *Verifier) findHead(text string) int {
	head, err := hex.DecodeString(text)
	if err != nil {
		return -1
	}
	numbers := append([]int{0}, sortedKeys(v.links)...)
	for _, number := range slices.Backward(numbers) {
		if slices.ContainsFunc(v.before(number+1), func(h []byte) bool { return bytes.Equal(h, head) }) {
			return number
		}
	}
	return -1
}

// explainHead holds the end of the chain against the head.
func (v *Verifier) explainHead(sealed job.Sealed) {
	switch {
	case v.end >= 0:
		v.explainTail()
	case sealed.Head == "":
		v.fault(job.FaultHead, 0, 0, "the attempt's head was removed")
	case v.lastChanged():
		// It is said already, and tells why.
	case v.carried < sealed.ToolCalls:
		v.fault(job.FaultRemoved, 0, v.last+1, "calls after link %d were removed: %d of %d that were made are there", v.last, v.carried, sealed.ToolCalls)
	default:
		v.fault(job.FaultHead, 0, v.last, "link %d is not the attempt's head: the head was changed, or refused calls after it were removed", v.last)
	}
}

// lastChanged reports whether the hash of the last link does not fit it.
func (v *Verifier) lastChanged() bool {
	return slices.ContainsFunc(v.links[v.last], func(l claim) bool { return !l.fits })
}

// explainTail names the calls whose links come after the head.
func (v *Verifier) explainTail() {
	told := map[int]bool{}
	for _, number := range sortedKeys(v.links) {
		for _, l := range v.links[number] {
			if number > v.end && !told[l.seq] {
				told[l.seq] = true
				v.fault(job.FaultAdded, l.seq, number, "call %d has link %d, but the attempt ended with link %d", l.seq, number, v.end)
			}
		}
	}
}

func sortedKeys[V any](m map[int]V) []int {
	keys := make([]int, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func first(numbers []int) int {
	if len(numbers) == 0 {
		return 0
	}
	return numbers[0]
}

func numbers(list []int) string {
	words := make([]string, len(list))
	for i, n := range list {
		words[i] = fmt.Sprint(n)
	}
	return strings.Join(words, ", ")
}
