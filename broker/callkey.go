package broker

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"maps"
	"sync"

	"airlock/job"

	"github.com/go-json-experiment/json/jsontext"
)

// maxCanonical is up to which size arguments are the same in any order.
const maxCanonical = 64 << 10

// sameness is a digest that equal calls of a job have in common: it is of the
// job, the tool and the arguments; see canonical.
type sameness [sha256.Size]byte

func samenessOf(id job.ID, namespace, name string, arguments jsontext.Value) (same sameness, h hash.Hash) {
	h = sha256.New()
	writePrefixed(h, id[:])
	writePrefixed(h, []byte(namespace))
	writePrefixed(h, []byte(name))
	writePrefixed(h, canonical(arguments))
	h.Sum(same[:0])
	return same, h
}

// canonical is a document with its members sorted, its strings in one form and
// no space. Numbers stay as they are written: 1 and 1.0 are two values to a
// guest, and integers are exact beyond what a float holds. A large document is
// taken as it is written, since a guest may send many: sorting eight megabytes
// at 64 levels takes as many copies.
func canonical(doc jsontext.Value) jsontext.Value {
	if len(doc) > maxCanonical {
		return doc
	}
	c := doc.Clone()
	err := c.Format(jsontext.ReorderRawObjects(true), jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false),
		jsontext.PreserveRawStrings(false), jsontext.Multiline(false), jsontext.SpaceAfterColon(false), jsontext.SpaceAfterComma(false))
	if err != nil {
		return doc // no JSON, as what the audit holds may be
	}
	return c
}

// callKeys counts the equal calls of one attempt.
type callKeys struct {
	mu   sync.Mutex
	seen map[sameness]int // guarded by mu

	// last has the end of each line of equal calls, and may lack those that all
	// have passed; it is swept when it has grown to sweepAt. Both are the
	// reader's.
	last    map[sameness]chan struct{}
	sweepAt int
}

// minSweep is how many lines are too few to look for those that have ended.
const minSweep = 256

func newCallKeys() *callKeys {
	return &callKeys{seen: map[sameness]int{}, last: map[sameness]chan struct{}{}}
}

// rank is a call's place in the line of those that the audit cannot tell from
// it. They are counted in the order in which the guest made them, although they
// are served in parallel, so that a later attempt that makes the same calls
// counts them the same.
type rank struct {
	// same is of the call as it is made, kept of what the audit keeps of it,
	// and hash has taken what same is of.
	same, kept sameness
	hash       hash.Hash
	before     <-chan struct{}
	passed     chan struct{}
	once       sync.Once
}

// join is the reader's. arguments are the guest's, kept what the audit keeps.
func (k *callKeys) join(id job.ID, namespace, name string, arguments, kept jsontext.Value) *rank {
	r := k.alone(id, namespace, name, arguments)
	if !bytes.Equal(arguments, kept) {
		r.kept, _ = samenessOf(id, namespace, name, kept)
	}
	r.before = k.last[r.kept]
	if len(k.last) >= max(k.sweepAt, minSweep) {
		k.sweep()
	}
	k.last[r.kept] = r.passed
	return r
}

// alone is the rank of a call that stands in no line.
func (k *callKeys) alone(id job.ID, namespace, name string, arguments jsontext.Value) *rank {
	r := &rank{passed: make(chan struct{})}
	r.same, r.hash = samenessOf(id, namespace, name, arguments)
	r.kept = r.same
	return r
}

func (k *callKeys) sweep() {
	maps.DeleteFunc(k.last, func(_ sameness, passed chan struct{}) bool {
		select {
		case <-passed:
			return true
		default:
			return false
		}
	})
	k.sweepAt = 2 * len(k.last)
}

// await returns when the equal calls before were counted or refused, or when
// all calls end.
func (r *rank) await(calls context.Context) {
	if r.before == nil {
		return
	}
	select {
	case <-r.before:
	case <-calls.Done():
	}
}

// leave lets the next equal call pass. It may be called again.
func (r *rank) leave() { r.once.Do(func() { close(r.passed) }) }

// next is the number that an equal call would get.
func (k *callKeys) next(same sameness) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.seen[same] + 1
}

// count takes a call's number and returns its Idempotency-Key: the same for the
// same call in a later attempt, and two for two equal calls on purpose. It is
// for calls that will be made, or that their record answers.
func (k *callKeys) count(r *rank) (key string) {
	defer r.leave()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.seen[r.same]++
	if r.kept != r.same {
		k.seen[r.kept]++
	}
	writeInt(r.hash, int64(k.seen[r.same]))
	return hex.EncodeToString(r.hash.Sum(nil))
}

// abridged is what the audit keeps of the arguments of a refused call: all, or
// their size and digest.
func abridged(arguments jsontext.Value) jsontext.Value {
	return Abridge(arguments, maxRefusedArguments)
}

// Abridge returns the document, or its size and digest if it is larger than
// max bytes.
func Abridge(arguments jsontext.Value, max int) jsontext.Value {
	if len(arguments) <= max {
		return arguments
	}
	sum := sha256.Sum256(arguments)
	return jsontext.Value(fmt.Sprintf(`{"$airlock":"omitted","bytes":%d,"sha256":"%x"}`, len(arguments), sum))
}
